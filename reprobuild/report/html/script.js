// The page is whole without this: it copies commands, and narrows a table to the rows that hold what is typed.
"use strict";
(() => {
  const select = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    const selection = getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
  };
  const copy = async (button) => {
    const block = button.parentElement.querySelector("pre");
    const text = [...block.querySelectorAll("code")].map((line) => line.textContent).join("\n") + "\n";
    const label = button.firstChild;
    try {
      await navigator.clipboard.writeText(text);
      label.data = "Copied";
    } catch {
      select(block);
      label.data = "Selected";
    }
    setTimeout(() => { label.data = "Copy"; }, 2000);
  };
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", () => copy(button));
    button.hidden = false;
  }

  const narrow = (section, lists, rows, wanted, number) => {
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    for (const region of section.querySelectorAll(".scroll")) {
      if (!region.querySelector("tbody tr")) continue;
      const none = !region.querySelector("tbody tr:not([hidden])");
      region.hidden = none;
      const above = region.previousElementSibling;
      if (above && above.tagName === "H4") above.hidden = none;
    }
    number.textContent = wanted ? `${rows.filter((row) => !row.hidden).length} of ${rows.length}` : "";
  };
  for (const filter of document.querySelectorAll(".filter")) {
    const section = filter.parentElement, field = filter.querySelector("input"), number = filter.querySelector("output");
    const lists = [...section.querySelectorAll("details")];
    const rows = [...section.querySelectorAll("table.packages tbody tr, table.lines tbody tr")];
    let before = null;
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      if (wanted && before === null) before = lists.map((list) => list.open);
      narrow(section, lists, rows, wanted, number);
      lists.forEach((list, at) => { list.open = wanted ? true : before ? before[at] : list.open; });
      if (!wanted) before = null;
    });
    filter.hidden = false;
  }
})();
