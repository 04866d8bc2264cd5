# Finds PyTorch by asking the interpreter that has it: SOFTIB_TORCH_FOUND, _INCLUDES, _LIBRARIES, _DEFINITIONS, _SUFFIX.
set(SOFTIB_TORCH AUTO CACHE STRING "Build the backend for PyTorch: ON, OFF, or AUTO, where PyTorch's headers are found")
set_property(CACHE SOFTIB_TORCH PROPERTY STRINGS AUTO ON OFF)
set(SOFTIB_TORCH_PYTHON /usr/bin/python3 CACHE FILEPATH "The interpreter whose PyTorch the backend is built for")

set(SOFTIB_TORCH_FOUND FALSE)
set(SOFTIB_TORCH_FOLDER "" CACHE INTERNAL "Where the PyTorch lies that was found")
if(NOT SOFTIB_TORCH OR (SOFTIB_LAYERS AND NOT "pytorch" IN_LIST SOFTIB_LAYERS))
  return()
endif()

function(softib_torch_missing why)
  if(SOFTIB_TORCH STREQUAL AUTO)
    message(STATUS "PyTorch of ${SOFTIB_TORCH_PYTHON} ${why}: its backend is left out")
  else()
    message(FATAL_ERROR "SOFTIB_TORCH=ON, and PyTorch of ${SOFTIB_TORCH_PYTHON} ${why}")
  endif()
endfunction()

# Types of PyTorch's are known to an extension only if pybind11 of both names their ABI alike, which is more specific
# than need be before its version 3. 2.13 has no _GLIBCXX_USE_CXX11_ABI any more, and uses the newer one.
execute_process(COMMAND ${SOFTIB_TORCH_PYTHON} -c "
import importlib.util, os, sys, sysconfig
spec = importlib.util.find_spec('torch')
if spec is None:
    sys.exit('no module torch: install python3-torch')
folder = os.path.dirname(spec.origin)
if not os.path.exists(folder + '/include/torch/csrc/distributed/c10d/Store.hpp'):
    sys.exit('no headers of torch in ' + folder + ': install libtorch-dev')
python = sysconfig.get_path('include')
if not os.path.exists(python + '/Python.h'):
    sys.exit('no headers of Python in ' + python + ': install python3-dev')
if not any(os.path.exists(place + '/pybind11/pybind11.h') for place in (folder + '/include', python, '/usr/include')):
    sys.exit('no headers of pybind11: install pybind11-dev')
import torch
names = {name: getattr(torch._C, '_PYBIND11_' + name, None) for name in ('COMPILER_TYPE', 'STDLIB', 'BUILD_ABI')}
print(folder, python, sysconfig.get_config_var('EXT_SUFFIX'), torch.__version__,
      '_GLIBCXX_USE_CXX11_ABI=%d' % getattr(torch._C, '_GLIBCXX_USE_CXX11_ABI', True),
      *('PYBIND11_%s=%s' % item for item in names.items() if item[1]), sep=';', end='')
" OUTPUT_VARIABLE answer ERROR_VARIABLE error RESULT_VARIABLE status)
if(status)
  string(STRIP "${error}" error)
  softib_torch_missing("isn't there (${error})")
  return()
endif()

list(GET answer 0 torch)
list(GET answer 1 python)
list(GET answer 2 SOFTIB_TORCH_SUFFIX)
list(GET answer 3 version)
list(SUBLIST answer 4 -1 SOFTIB_TORCH_DEFINITIONS)
list(TRANSFORM SOFTIB_TORCH_DEFINITIONS REPLACE "^(PYBIND11_.*)=(.*)" "\\1=\"\\2\"")
# From 2.13 on PyTorch's headers bring an fmt of their own, for which there is no library.
list(APPEND SOFTIB_TORCH_DEFINITIONS FMT_HEADER_ONLY)
# pip's wheels before 2.6 have std::string as it was before C++11: all that is linked with them must be compiled so.
if("_GLIBCXX_USE_CXX11_ABI=0" IN_LIST SOFTIB_TORCH_DEFINITIONS)
  if(NOT SOFTIB_LAYERS)
    softib_torch_missing("(${version}) has C++ strings of the old ABI: only `pip wheel` builds for that")
    return()
  endif()
  add_compile_definitions(_GLIBCXX_USE_CXX11_ABI=0 FMT_HEADER_ONLY)
endif()
set(SOFTIB_TORCH_FOLDER ${torch} CACHE INTERNAL "")
set(SOFTIB_TORCH_INCLUDES ${torch}/include ${torch}/include/torch/csrc/api/include ${python})
set(SOFTIB_TORCH_LIBRARIES)
foreach(name IN ITEMS torch torch_cpu torch_python c10)
  list(APPEND SOFTIB_TORCH_LIBRARIES ${torch}/lib/lib${name}.so)
endforeach()
message(STATUS "PyTorch ${version} of ${SOFTIB_TORCH_PYTHON}")
set(SOFTIB_TORCH_FOUND TRUE)
