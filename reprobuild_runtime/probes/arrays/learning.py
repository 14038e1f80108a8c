"""Probes of scikit-learn.

They are estimators with threads, and those that draw from NumPy's global generator.
"""

from reprobuild_runtime.probes.arrays.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Tuple

    from reprobuild_runtime.probes.arrays.bench import ArrayBench

_NAME = "scikit-learn"


def _classes(b: "ArrayBench", rows: int = 1200, columns: int = 12) -> "Tuple[Any, Any]":
    values = b.randn(rows, columns, spread=0)
    return values, (values[:, 0] + 0.5 * values[:, 1] + b.private.standard_normal(rows) > 0).astype(int)


def _trees(b: "ArrayBench", kind: str, **options: "Any") -> "List[Any]":
    """Grow trees in two threads, and return their probabilities."""
    values, classes = _classes(b)
    model = getattr(b.package("sklearn.ensemble"), kind)(n_estimators=12, n_jobs=2, **options).fit(
        values, classes
    )
    return [model.predict_proba(values), model.feature_importances_]


@probe(_NAME)
def sklearn_forest(b: "ArrayBench") -> "List[Any]":
    return _trees(b, "RandomForestClassifier", random_state=b.seed % 2**32)


@probe(_NAME)
def sklearn_forest_unseeded(b: "ArrayBench") -> "List[Any]":
    """Draw from NumPy's global generator, as the hook left it."""
    return _trees(b, "ExtraTreesClassifier", bootstrap=True)


@probe(_NAME)
def sklearn_boosting(b: "ArrayBench") -> "List[Any]":
    """Fill histograms in threads of OpenMP."""
    b.package("sklearn.experimental.enable_hist_gradient_boosting")
    ensemble = b.package("sklearn.ensemble")
    values, classes = _classes(b)
    model = ensemble.HistGradientBoostingClassifier(max_iter=8, random_state=0).fit(values, classes)
    return [model.predict_proba(values)]


def _make_centres(b: "ArrayBench") -> "List[Any]":
    values = b.randn(3000, 16)
    model = (
        b.package("sklearn.cluster").KMeans(8, n_init=1, max_iter=15, random_state=b.seed % 2**32).fit(values)
    )
    return [model.cluster_centers_, model.labels_, b.numpy.asarray(model.inertia_)]


@probe(_NAME, promised=False)
def sklearn_kmeans(b: "ArrayBench") -> "List[Any]":
    """Add the threads' parts of each centre in order of arrival.

    The order is visible with three threads or more.
    """
    return _make_centres(b)


@probe(_NAME)
def sklearn_kmeans_one_thread(b: "ArrayBench") -> "List[Any]":
    limits = b.package("threadpoolctl").threadpool_limits
    b.package("sklearn.cluster")
    with limits(limits=1):
        return _make_centres(b)


@probe(_NAME)
def sklearn_linear(b: "ArrayBench") -> "List[Any]":
    linear = b.package("sklearn.linear_model")
    values, classes = _classes(b)
    coefficients = [
        linear.LogisticRegression(max_iter=50).fit(values, classes).coef_,
        linear.SGDClassifier(max_iter=5, tol=None).fit(values, classes).coef_,
        linear.Ridge().fit(values, values[:, 1]).coef_, linear.Lasso(0.01).fit(values, values[:, 1]).coef_,
    ]  # fmt: skip
    return [b.numpy.asarray(array) for array in coefficients]


@probe(_NAME)
def sklearn_decomposition(b: "ArrayBench") -> "List[Any]":
    """Decompose in full, and with random projections.

    These use NumPy's global generator.
    """
    parts = b.package("sklearn.decomposition")
    values = b.randn(500, 60)
    return [
        parts.PCA(5, svd_solver="full").fit_transform(values),
        parts.PCA(5, svd_solver="randomized").fit_transform(values),
        parts.NMF(4, init="random", max_iter=30, tol=0).fit_transform(abs(values)),
    ]  # fmt: skip


@probe(_NAME)
def sklearn_neighbours(b: "ArrayBench") -> "List[Any]":
    near, machines = b.package("sklearn.neighbors"), b.package("sklearn.svm")
    values, classes = _classes(b, 800)
    model = near.KNeighborsClassifier(7, n_jobs=2).fit(values, classes)
    vectors = machines.SVC(probability=False).fit(values, classes)
    return [
        model.predict_proba(values),
        *model.kneighbors(values[:100]),
        vectors.dual_coef_,
        vectors.decision_function(values),
    ]


@probe(_NAME)
def sklearn_selection(b: "ArrayBench") -> "List[Any]":
    """Split and fold by NumPy's global generator.

    Its state is that of the start-up hook.
    """
    selection, trees = b.package("sklearn.model_selection"), b.package("sklearn.tree")
    values, classes = _classes(b, 600)
    train, test, *_ = selection.train_test_split(values, classes, test_size=0.3)
    model = trees.DecisionTreeClassifier(max_depth=5)
    folds = selection.KFold(4, shuffle=True)
    return [train, test, selection.cross_val_score(model, values, classes, cv=folds)]
