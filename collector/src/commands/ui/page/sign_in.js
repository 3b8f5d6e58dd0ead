// Gives the password that stands behind the sign # of the link, and takes it out of the address.
function signIn() {
  const password = location.hash.slice(1);
  if (password === "") return;
  history.replaceState(null, "", location.pathname);
  document.querySelector("#password").value = password;
  document.querySelector("#sign-in").requestSubmit();
}

// The link may be opened where this page is already.
addEventListener("hashchange", signIn);
signIn();
