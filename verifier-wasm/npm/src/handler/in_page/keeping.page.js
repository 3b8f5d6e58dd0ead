/**
 * Where a page keeps its link, so that a reload and the way back find it: in the state of the
 * history entry, which is in no request and in no address. It is stored there as the sum with a pad
 * that is in the tab's session storage, so that neither place tells the token to a program that
 * collects it, and so that every entry forgets the link when the pad is removed.
 *
 * Each call leaves the address without its token.
 */
export default function keeping() {
  const url = new URL(location.href);
  url.pathname = url.pathname.replaceAll("&sol;", "/");
  const inPath = /(?:%(?:25)*(?:3f|23|26|3b|ef%bc)|[&;*]|[-=]3f|\/(?=token=))[^/]*/gi;
  const plain = (text) =>
    text.replace(/%([\da-f]{2})/gi, (_, hex) => String.fromCharCode(`0x${hex}`));
  const found = [...url.pathname.matchAll(inPath)].find(([text]) =>
    /token|[\w-]{80}/i.test(plain(plain(text)).replace(/[^\w-]/g, "")),
  );
  if (found) url.pathname = url.pathname.slice(0, found.index);
  const name = /(?:^|[^\w-])t[^\w-]*o[^\w-]*k[^\w-]*e[^\w-]*n(?:[^\w-]|$)/i;
  const has = (text) => name.test(text.replace(/[^ -~]/g, (one) => one.normalize("NFKC")));
  const pairs = [...url.searchParams];
  const named = pairs.filter(([name]) => has(name));
  const others = pairs.filter((pair) => has(pair.join("=")) || /[\w-]{80}/.test(pair[0]));
  const split = /^[a-z]{2,20};/i;
  const rest = pairs.filter(([name]) => split.test(name));
  const gone = named.length > 0 ? [...named, ...rest] : others;
  const names = new Set(["open", "script", ...gone.map(([name]) => name)]);
  url.search = new URLSearchParams(pairs.filter(([name]) => !names.has(name)));
  url.hash = "";
  const sum = (codes, pad) => codes.map((code, place) => code ^ pad.charCodeAt(place));
  const padOf = () => {
    try {
      return sessionStorage.getItem("mailroom") ?? "";
    } catch {
      return "";
    }
  };
  const clean = (state) => history.replaceState(state, "", url);
  return {
    clean,
    keep(token) {
      let state = null;
      try {
        const bytes = crypto.getRandomValues(new Uint8Array(168));
        if (padOf() === "") sessionStorage.setItem("mailroom", String.fromCharCode(...bytes));
        state = {
          mailroom: sum(
            [...token].map((character) => character.charCodeAt(0)),
            padOf(),
          ),
        };
      } catch {}
      clean(state);
    },
    recall() {
      try {
        const token = String.fromCharCode(...sum(history.state.mailroom, padOf()));
        return /^[\w-]{86,168}$/.test(token) ? token : "";
      } catch {
        return "";
      }
    },
    forget() {
      try {
        sessionStorage.removeItem("mailroom");
      } catch {}
      clean(null);
    },
    /** Has the server show a link whose token is not in the address. */
    show(token) {
      const form = document.createElement("form");
      form.method = "post";
      form.action = url;
      for (const [name, value] of [
        ["show", "yes"],
        ["token", token],
      ]) {
        const input = document.createElement("input");
        input.type = "hidden";
        input.name = name;
        input.value = value;
        form.append(input);
      }
      document.body.append(form);
      form.submit();
    },
    /** A token behind `#` that comes into an open page loads nothing: the page asks anew. */
    hear() {
      addEventListener("hashchange", () => {
        if (location.hash.length > 80) location.reload();
      });
    },
  };
}
