"""Probes of SciPy.

They cover its own BLAS and LAPACK, sparse matrices, optimisation, and draws from NumPy's global generator.
"""

from reprobuild_runtime.probes.arrays.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.arrays.bench import ArrayBench


@probe("scipy")
def scipy_linalg(b: "ArrayBench") -> "List[Any]":
    linalg = b.package("scipy.linalg")
    matrix = b.randn(96, 96, spread=0)
    return [
        *linalg.lu(matrix), linalg.expm(matrix / 10), *linalg.schur(matrix[:64, :64]),
        linalg.cho_solve(linalg.cho_factor(b.definite(96)), b.randn(96)), *linalg.eigh(b.definite(64), b.definite(64)),
    ]  # fmt: skip


@probe("scipy")
def scipy_blas(b: "ArrayBench") -> "List[Any]":
    blas = b.package("scipy.linalg.blas")
    double, single = b.randn(256, 256), b.randn(256, 256, dtype="float32")
    return [blas.dgemm(1.0, double, double), blas.sgemm(1.0, single, single), blas.dsyrk(1.0, double)]


def _sparse(b: "ArrayBench", rows: int, columns: int) -> "Any":
    """Return a matrix of summed duplicates."""
    sparse, count = b.package("scipy.sparse"), rows * 12
    places = (b.index(rows, count), b.index(columns, count))
    return sparse.coo_matrix((b.randn(count), places), shape=(rows, columns)).tocsr()


@probe("scipy")
def scipy_sparse(b: "ArrayBench") -> "List[Any]":
    first, second = _sparse(b, 1000, 800), _sparse(b, 800, 600)
    product = (first @ second).tocsc()
    return [
        first.data,
        first.indices,
        product.data,
        product.indices,
        first @ b.randn(800, 4),
        first.T @ b.randn(1000),
    ]


@probe("scipy")
def scipy_sparse_solvers(b: "ArrayBench") -> "List[Any]":
    sparse, linalg = b.package("scipy.sparse"), b.package("scipy.sparse.linalg")
    matrix = _sparse(b, 400, 400)
    definite = (matrix @ matrix.T + 1000 * sparse.identity(400)).tocsc()
    right = b.randn(400)
    values, vectors = linalg.eigsh(definite, k=4, v0=b.randn(400))
    return [
        linalg.spsolve(definite, right),
        linalg.cg(definite, right)[0],
        linalg.lsqr(matrix, right)[0],
        values,
        vectors,
    ]


def _rosenbrock(x: "Any") -> "Any":
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@probe("scipy")
def scipy_minimize(b: "ArrayBench") -> "List[Any]":
    optimize = b.package("scipy.optimize")
    start = b.randn(6, spread=0)
    options = {"maxiter": 20}
    results = [
        optimize.minimize(_rosenbrock, start, method=name, options=options)
        for name in ("BFGS", "L-BFGS-B", "Nelder-Mead", "SLSQP")
    ]
    least = optimize.least_squares(lambda x: x**3 - b.numpy.arange(6), start)
    return [*(result.x for result in results), least.x]


@probe("scipy")
def scipy_search(b: "ArrayBench") -> "List[Any]":
    """Draw from NumPy's global generator, as the hook left it."""
    optimize = b.package("scipy.optimize")
    bounds = [(-2.0, 2.0)] * 3
    return [optimize.differential_evolution(_rosenbrock, bounds, maxiter=8, popsize=6, polish=False).x]


@probe("scipy")
def scipy_linear_program(b: "ArrayBench") -> "List[Any]":
    optimize = b.package("scipy.optimize")
    rows, target = abs(b.randn(40, 25, spread=0)), abs(b.randn(40, spread=0)) + 1
    cost = -abs(b.randn(25, spread=0))
    solution = optimize.linprog(cost, A_ub=rows, b_ub=target, bounds=(0, 10))
    places = optimize.linear_sum_assignment(b.randn(60, 60))
    return [b.numpy.asarray(solution.x), *places]


@probe("scipy")
def scipy_integrate(b: "ArrayBench") -> "List[Any]":
    integrate = b.package("scipy.integrate")
    matrix = b.randn(8, 8, spread=0)
    solutions = [
        integrate.solve_ivp(lambda _t, y: matrix @ y / 4, (0, 2), b.numpy.ones(8), method=name).y
        for name in ("RK45", "BDF", "LSODA")
    ]
    area = integrate.quad(lambda x: b.numpy.exp(-x * x) * b.numpy.cos(3 * x), 0, 4)
    return [*solutions, b.numpy.asarray(area)]


@probe("scipy")
def scipy_fft(b: "ArrayBench") -> "List[Any]":
    """Divide the rows between two threads."""
    fft = b.package("scipy.fft")
    values = b.randn(64, 500)
    return [
        fft.fft(values, workers=2),
        fft.dct(values, workers=2),
        fft.rfft2(b.randn(120, 90, dtype="float32"), workers=2),
    ]


@probe("scipy")
def scipy_signal(b: "ArrayBench") -> "List[Any]":
    signal, images = b.package("scipy.signal"), b.package("scipy.ndimage")
    picture = b.randn(96, 96)
    above, below = signal.butter(4, 0.2)
    return [
        signal.fftconvolve(picture, b.randn(9, 9)), signal.lfilter(above, below, b.randn(2000)),
        images.gaussian_filter(picture, 2.0), images.rotate(picture, 17.0), images.zoom(picture, 1.3),
    ]  # fmt: skip


@probe("scipy")
def scipy_spatial(b: "ArrayBench") -> "List[Any]":
    spatial, cluster = b.package("scipy.spatial"), b.package("scipy.cluster.hierarchy")
    points = b.randn(1500, 3)
    distances, neighbours = spatial.cKDTree(points).query(b.randn(500, 3), k=5)
    return [
        distances,
        neighbours,
        cluster.linkage(points[:200], "ward"),
        spatial.distance.pdist(points[:200], "cosine"),
    ]


@probe("scipy")
def scipy_stats(b: "ArrayBench") -> "List[Any]":
    """Draw from NumPy's global generator, and sum many terms.

    Its state is that of the start-up hook.
    """
    stats, special = b.package("scipy.stats"), b.package("scipy.special")
    values = b.randn(400, spread=0)
    return [
        stats.norm.rvs(size=300), stats.gamma.rvs(1.3, size=300), stats.gaussian_kde(values)(values[:50]),
        b.numpy.asarray(stats.ttest_ind(values[:200], values[200:])), special.logsumexp(b.randn(50, 40), axis=1),
        special.gammaln(abs(values) + 1), special.erfinv(b.numpy.clip(values / 4, -0.9, 0.9)),
    ]  # fmt: skip
