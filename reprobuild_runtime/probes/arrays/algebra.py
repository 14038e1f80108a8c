"""Probes of products and decompositions.

BLAS and LAPACK use several threads for these sizes.
"""

from reprobuild_runtime.probes.arrays.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.arrays.bench import ArrayBench


@probe()
def numpy_matmul_fp64(b: "ArrayBench") -> "List[Any]":
    return [b.randn(320, 384) @ b.randn(384, 256)]


@probe()
def numpy_matmul_fp32(b: "ArrayBench") -> "List[Any]":
    return [b.randn(320, 384, dtype="float32") @ b.randn(384, 256, dtype="float32")]


@probe()
def numpy_matmul_complex(b: "ArrayBench") -> "List[Any]":
    return [(b.randn(128, 192) + 1j * b.randn(128, 192)) @ b.randn(192, 128)]


@probe()
def numpy_matmul_long_sums(b: "ArrayBench") -> "List[Any]":
    """Sum many products for few results, so that threads split a sum."""
    return [b.randn(4, 65536, dtype="float32") @ b.randn(65536, 4, dtype="float32")]


@probe()
def numpy_dot_and_matvec(b: "ArrayBench") -> "List[Any]":
    first, second = b.randn(200000), b.randn(200000)
    matrix, vector = b.randn(600, 900), b.randn(900)
    return [
        b.numpy.asarray(first @ second),
        b.numpy.asarray(b.numpy.linalg.norm(first)),
        matrix @ vector,
        matrix.T @ vector[:600],
    ]


@probe()
def numpy_gram(b: "ArrayBench") -> "List[Any]":
    """Multiply a matrix by its transpose; BLAS has a special kernel."""
    values = b.randn(300, 500)
    return [values @ values.T, values.T @ values]


@probe()
def numpy_einsum(b: "ArrayBench") -> "List[Any]":
    first, second = b.randn(8, 48, 64), b.randn(8, 64, 32)
    return [
        b.numpy.einsum("bij,bjk->bik", first, second),
        b.numpy.einsum("bij,bjk->ik", first, second, optimize=True),
        b.numpy.tensordot(first, second, axes=([0, 2], [0, 1])),
    ]


@probe()
def numpy_solve(b: "ArrayBench") -> "List[Any]":
    matrix, right = b.randn(256, 256), b.randn(256, 8)
    return [
        b.numpy.linalg.solve(matrix, right),
        b.numpy.linalg.inv(matrix),
        b.numpy.asarray(b.numpy.linalg.slogdet(matrix)[1]),
    ]


@probe()
def numpy_factors(b: "ArrayBench") -> "List[Any]":
    return [b.numpy.linalg.cholesky(b.definite(192)), *b.numpy.linalg.qr(b.randn(192, 96))]


@probe()
def numpy_svd(b: "ArrayBench") -> "List[Any]":
    return list(b.numpy.linalg.svd(b.randn(192, 128), full_matrices=False))


@probe()
def numpy_eigh(b: "ArrayBench") -> "List[Any]":
    return list(b.numpy.linalg.eigh(b.definite(160)))


@probe()
def numpy_eig(b: "ArrayBench") -> "List[Any]":
    return list(b.numpy.linalg.eig(b.randn(80, 80)))


@probe()
def numpy_least_squares(b: "ArrayBench") -> "List[Any]":
    solution = b.numpy.linalg.lstsq(b.randn(400, 40), b.randn(400, 3), rcond=None)
    return [b.numpy.asarray(part) for part in solution]
