# Finds PyTorch by asking the interpreter that has it: SOFTIB_TORCH_FOUND, _INCLUDES, _LIBRARIES, _CXX11_ABI, _SUFFIX.
set(SOFTIB_TORCH AUTO CACHE STRING "Build the backend for PyTorch: ON, OFF, or AUTO, where PyTorch's headers are found")
set_property(CACHE SOFTIB_TORCH PROPERTY STRINGS AUTO ON OFF)
set(SOFTIB_TORCH_PYTHON /usr/bin/python3 CACHE FILEPATH "The interpreter whose PyTorch the backend is built for")

set(SOFTIB_TORCH_FOUND FALSE)
set(SOFTIB_TORCH_FOLDER "" CACHE INTERNAL "Where the PyTorch lies that was found")
if(NOT SOFTIB_TORCH)
  return()
endif()

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
print(folder, python, int(torch._C._GLIBCXX_USE_CXX11_ABI), sysconfig.get_config_var('EXT_SUFFIX'),
      torch.__version__, sep=';', end='')
" OUTPUT_VARIABLE answer ERROR_VARIABLE error RESULT_VARIABLE status)
if(status)
  string(STRIP "${error}" error)
  if(SOFTIB_TORCH STREQUAL AUTO)
    message(STATUS "PyTorch of ${SOFTIB_TORCH_PYTHON} not found (${error}): its backend is left out")
    return()
  endif()
  message(FATAL_ERROR "SOFTIB_TORCH=ON, and PyTorch of ${SOFTIB_TORCH_PYTHON} isn't there: ${error}")
endif()

list(GET answer 0 torch)
list(GET answer 1 python)
list(GET answer 2 SOFTIB_TORCH_CXX11_ABI)
list(GET answer 3 SOFTIB_TORCH_SUFFIX)
list(GET answer 4 version)
set(SOFTIB_TORCH_FOLDER ${torch} CACHE INTERNAL "")
set(SOFTIB_TORCH_INCLUDES ${torch}/include ${torch}/include/torch/csrc/api/include ${python})
set(SOFTIB_TORCH_LIBRARIES)
foreach(name IN ITEMS torch torch_cpu torch_python c10)
  list(APPEND SOFTIB_TORCH_LIBRARIES ${torch}/lib/lib${name}.so)
endforeach()
message(STATUS "PyTorch ${version} of ${SOFTIB_TORCH_PYTHON}")
set(SOFTIB_TORCH_FOUND TRUE)
