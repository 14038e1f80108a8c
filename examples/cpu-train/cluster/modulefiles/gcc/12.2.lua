whatis("GNU compilers 12.2")
local root = "/apps/gcc/12.2"
setenv("CC", pathJoin(root, "bin/gcc"))
setenv("CXX", pathJoin(root, "bin/g++"))
prepend_path("PATH", pathJoin(root, "bin"))
prepend_path("LD_LIBRARY_PATH", pathJoin(root, "lib64"))
