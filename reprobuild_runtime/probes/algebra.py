"""Probes of matrix products, also sparse, decompositions and transforms."""

from reprobuild_runtime.probes.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.bench import Bench


@probe()
def matmul_fp32(b: "Bench") -> "List[Any]":
    return [b.randn(b.pick(192, 1024), 1024, spread=3) @ b.randn(1024, b.pick(160, 1024), spread=3)]


@probe()
def matmul_bf16(b: "Bench") -> "List[Any]":
    left, right = b.randn(b.pick(64, 2048), 512, spread=3), b.randn(512, b.pick(64, 2048), spread=3)
    return [left.bfloat16() @ right.bfloat16()]


@probe()
def matmul_long_sums(b: "Bench") -> "List[Any]":
    """Multiply a shape with a sum divided among processors (split-K)."""
    depth = b.pick(8192, 65536)
    left, right = b.randn(b.pick(32, 128), depth, spread=3), b.randn(depth, b.pick(32, 128), spread=3)
    return [left @ right, left.bfloat16() @ right.bfloat16()]


@probe(devices=("cuda",))
def matmul_on_two_streams(b: "Bench") -> "List[Any]":
    left, right = b.randn(512, 2048), b.randn(2048, 512)
    streams = [b.torch.cuda.Stream() for _ in range(2)]
    results = []
    for stream in streams:
        stream.wait_stream(b.torch.cuda.current_stream())
        with b.torch.cuda.stream(stream):
            results.append(left @ right)
    b.torch.cuda.synchronize()
    return results


@probe()
def batched_matmul_backward(b: "Bench") -> "List[Any]":
    side = b.pick(48, 256)
    left, right = b.leaves(b.randn(8, side, side), b.randn(8, side, side))
    return b.backward(b.torch.bmm(left, right), [left, right])


def _sparse(b: "Bench", rows: int, columns: int, count: int) -> "Any":
    """Return a sparse matrix with some places named several times."""
    places = b.torch.stack([b.index(rows, count), b.index(columns, count)])
    return b.torch.sparse_coo_tensor(places, b.randn(count), (rows, columns), device=b.device)


@probe(("torch.bmm", "sparse-dense"))
def sparse_bmm(b: "Bench") -> "List[Any]":
    count = b.pick(2000, 20000)
    places = b.torch.stack([b.index(4, count), b.index(64, count), b.index(64, count)])
    sparse = b.torch.sparse_coo_tensor(places, b.randn(count), (4, 64, 64), device=b.device)
    return [b.torch.bmm(sparse, b.randn(4, 64, 32))]


# cuSPARSE promises the same bits only for some algorithms; torch chooses none of them, and does not document this. An
# H100 showed both to drift in strict mode, too. https://docs.nvidia.com/cuda/cusparse/#cusparsespmm
@probe(informational=("cuda",))
def sparse_mm_backward(b: "Bench") -> "List[Any]":
    (dense,) = b.leaves(b.randn(512, 32))
    return b.backward(b.torch.sparse.mm(_sparse(b, 256, 512, b.pick(4000, 20000)), dense), [dense])


@probe(informational=("cuda",))
def sparse_csr_mm(b: "Bench") -> "List[Any]":
    sparse = _sparse(b, 256, 512, b.pick(4000, 20000)).coalesce().to_sparse_csr()
    return [sparse @ b.randn(512, 32)]


@probe()
def decompositions(b: "Bench") -> "List[Any]":
    side = b.pick(64, 256)
    x = b.randn(side, side, spread=0)
    positive = x @ x.T + side * b.torch.eye(side, device=b.device)
    return [b.torch.linalg.svdvals(x), b.torch.linalg.cholesky(positive), b.torch.linalg.solve(positive, x)]


@probe()
def fft(b: "Bench") -> "List[Any]":
    return [b.torch.fft.rfft2(b.randn(8, b.pick(96, 512), 96))]
