whatis("CUDA toolkit 12.4")
local root = "/apps/cuda/12.4"
setenv("CUDA_HOME", root)
prepend_path("PATH", pathJoin(root, "bin"))
prepend_path("LD_LIBRARY_PATH", pathJoin(root, "lib64"))
