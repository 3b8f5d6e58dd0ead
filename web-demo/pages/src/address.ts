// The first thing on a page that a link leads to: takes the token out of the address, which is seen, copied and kept in
// histories. Alone in a file of a few bytes, since it must not wait for anything; the page has the token in its form.

if (location.search !== "") history.replaceState(null, "", location.pathname);
