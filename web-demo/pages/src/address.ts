// The first thing on a page that a link leads to: takes the token out of the address, which is
// seen, copied and kept in histories. Alone in a file of a few bytes, since it must not wait for
// anything; the page has the token in its form.

const { search, hash } = location;
const hidden = hash.replace(/^#(token=)?/, "");
if (search !== "" || hidden !== "") history.replaceState(null, "", location.pathname);

// What is behind `#` is in no request: it goes on in a body, to be shown.
if (search === "" && hidden !== "") {
  addEventListener("DOMContentLoaded", () => {
    const form = document.createElement("form");
    form.method = "post";
    for (const [name, value] of [
      ["show", "yes"],
      ["token", hidden],
    ] as const) {
      form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
    }
    document.body.append(form);
    form.submit();
  });
}
