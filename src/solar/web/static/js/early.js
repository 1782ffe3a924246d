// Runs before the page is painted, so that a chosen theme does not flash.
{
  const theme = localStorage.getItem("solar-theme");
  if (theme) document.documentElement.dataset.theme = theme;
}
