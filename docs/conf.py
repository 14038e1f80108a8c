"""Settings of the documentation site, which `make docs` builds.

The source directory is the checkout. So a link from a page to README.md, or to a file of the code, is valid on a code
host and on the site. https://www.sphinx-doc.org/en/master/usage/configuration.html describes the settings.
"""

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
autodoc_preserve_defaults = True  # `sys.executable`, not a path of this machine
autodoc_typehints_format = "short"

html_theme = "furo"
html_title = f"reprobuild {release}"
html_favicon = "icon.svg"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
