// Gives the word that stands behind the sign # of the link, and takes it out of the history.
function enter() {
  const word = location.hash.slice(1);
  if (word === "") return;
  history.replaceState(null, "", location.pathname);
  document.querySelector("#word").value = word;
  document.querySelector("#enter").requestSubmit();
}

// The link may be opened where this page is already.
addEventListener("hashchange", enter);
enter();
