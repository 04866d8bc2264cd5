# What all targets share: language level, warnings, sanitizers, and the helpers softib_library and softib_test.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

add_compile_options(-Wall -Wextra -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> -fno-strict-aliasing)
if(SOFTIB_WERROR)
  add_compile_options(-Werror)
endif()
# Several files in one translation unit: a whole build takes less than a third of the time. Their names may hide each
# other. With more than 24 in one, processors would wait for the last unit of a library.
if(CMAKE_UNITY_BUILD)
  add_compile_options(-Wno-shadow)
  if(NOT CMAKE_UNITY_BUILD_BATCH_SIZE)
    set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)
  endif()
endif()
if(SOFTIB_SANITIZE)
  add_compile_options(-fsanitize=${SOFTIB_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${SOFTIB_SANITIZE})
  if(SOFTIB_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-Wno-tsan)  # it warns of atomic_thread_fence, which it can't follow
  endif()
endif()

# softib_headers(NAME HEADERS... [LIBS ...]): headers that a unity build parses once, for targets that are compiled with
# the same options and say so by target_precompile_headers(... REUSE_FROM NAME). Files include what they need all the
# same: other builds have no such headers.
function(softib_headers name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LIBS" ${ARGN})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "")
  add_library(${name} OBJECT ${source})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
endfunction()

# softib_library(NAME SOURCES... [LIBS ...]): one static library per layer.
function(softib_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${ARG_LIBS} Threads::Threads)
  target_compile_features(${name} PUBLIC cxx_std_20)  # for projects that have this one as a part
endfunction()

# Builds the unit tests that can run under sanitizers and nothing else: what the sanitizer presets build. Those that
# load the preload library into other programs can't: the sanitizer's runtime wants to be there first.
add_custom_target(unit_tests)
set(softib_preloading_tests cli_test shim_preload_test shim_live_test)
# Their code meets the sanitizers in its fuzz targets, and takes long to build.
set(softib_fuzzed_tests topo_test cli_unit_test)
# Computations and texts, compared with references: the sanitizers' time is better spent on what shares memory.
set(softib_unsanitized_tests ${softib_fuzzed_tests} coll_schedule_test perf_test)

# softib_test(NAME SOURCES... [LIBS ...] [LABELS ...]): one GoogleTest binary, one ctest entry.
function(softib_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main Threads::Threads)
  # GoogleTest's macros take an optimising compiler most of a build's time, and gain nothing from it.
  target_compile_options(${name} PRIVATE -O0 -g1)
  if(TARGET softib_test_headers)
    target_precompile_headers(${name} REUSE_FROM softib_test_headers)
  endif()
  if(name IN_LIST softib_preloading_tests OR (SOFTIB_SANITIZE AND name IN_LIST softib_unsanitized_tests))
    list(APPEND ARG_LABELS no_sanitizer)
  else()
    add_dependencies(unit_tests ${name})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 LABELS "unit;${ARG_LABELS}")
endfunction()
