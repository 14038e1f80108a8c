// The page is whole without this: it only narrows the packages to those that hold what is typed, and opens all for print.
"use strict";
(() => {
  const search = document.getElementById("search"), field = document.getElementById("find");
  const found = document.getElementById("found"), section = document.getElementById("packages");
  if (!search || !section) return;
  const lists = [...section.querySelectorAll("details")];
  const rows = [...section.querySelectorAll("table.packages tbody tr")];
  let before = null;
  const narrow = () => {
    const wanted = field.value.trim().toLowerCase();
    if (wanted && before === null) before = lists.map((list) => list.open);
    let number = 0;
    for (const row of rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
      if (!row.hidden) number += 1;
    }
    for (const region of section.querySelectorAll("details .scroll")) {
      const none = !region.querySelector("tbody tr:not([hidden])");
      region.hidden = none;
      if (region.previousElementSibling) region.previousElementSibling.hidden = none;
    }
    lists.forEach((list, at) => { list.open = wanted ? true : before ? before[at] : list.open; });
    if (!wanted) before = null;
    found.textContent = wanted ? `${number} of ${rows.length}` : "";
  };
  field.addEventListener("input", narrow);
  search.hidden = false;
})();
