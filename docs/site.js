// Scroll the navigation to the current page: it has more entries than a window shows.
const box = document.querySelector(".sidebar-scroll");
const entry = document.querySelector(".sidebar-tree .current-page");
if (box && entry) box.scrollTo({ top: entry.offsetTop - box.clientHeight / 2, behavior: "instant" });

// Let the keyboard scroll a wide table.
for (const table of document.querySelectorAll(".table-wrapper")) {
  if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
}
