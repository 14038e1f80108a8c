"""Settings of the documentation site, which `make docs` builds.

The source directory is the checkout. So a link from a page to README.md, or to a file of the code, is valid on a code
host and on the site. https://www.sphinx-doc.org/en/master/usage/configuration.html describes the settings.
"""

from posixpath import dirname, join, normpath
from urllib.parse import urldefrag

from docutils import nodes
from sphinx.application import Sphinx

from reprobuild import __version__

project = "reprobuild"
release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_external_toc"]

root_doc = "docs/README"
external_toc_path = "docs/_toc.yml"
include_patterns = ["*.md", "docs/**", "examples/*/README.md"]
exclude_patterns = [".*", "build", "dist"]  # directories that Sphinx would search

myst_heading_anchors = 4  # the anchors of GitHub
default_role = "literal"  # of docstrings, which write `name`
smartquotes = False  # `--option` outside of code keeps its hyphens
napoleon_use_ivar = True  # one list for the fields of a class
autodoc_preserve_defaults = True  # `sys.executable`, not a path of this machine
autodoc_typehints_format = "short"

html_theme = "furo"
html_title = f"reprobuild {release}"
html_favicon = "icon.svg"
html_static_path = ["site.css", "site.js"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_copy_source = False
html_show_copyright = False


def show_titles(app: Sphinx, page: nodes.document, name: str) -> None:
    """Show the title of a page instead of its file name, which a reader of the code host sees."""
    for link in page.findall(nodes.reference):
        if link.get("internal") and link.astext().endswith(".md"):
            target = normpath(join(dirname(name), urldefrag(link["refuri"]).url)).removesuffix(".html")
            title = app.env.external_site_map[target].title or app.env.titles[target].astext()
            link[:] = [nodes.Text(title)]


def setup(app: Sphinx) -> None:
    """Register the functions of this file."""
    app.connect("doctree-resolved", show_titles)
