// What the theme leaves out for readers with a keyboard or a screen reader.
for (const caption of document.querySelectorAll('[role="heading"]:not([aria-level])')) caption.ariaLevel = "2";
for (const wide of document.querySelectorAll("pre, .table-wrapper, .cell_output > .output")) wide.tabIndex = 0;
document.querySelector(".sidebar-drawer").ariaLabel = "All pages";
document.querySelector(".toc-drawer").ariaLabel = "This page";
