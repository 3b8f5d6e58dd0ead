/** Shows the link that the page has kept, if there is one. */
export default function recalling({ clean, recall, show }) {
  const token = recall();
  clean(history.state);
  if (token === "") return;
  document.documentElement.hidden = true;
  addEventListener("DOMContentLoaded", () => show(token));
}
