// Where a page keeps its link, so that a reload and the way back find it: in the state of the
// history entry, which is in no request and in no address. It is stored there as the sum with a pad
// that is in the tab's session storage, so that neither place tells the token to a program that
// collects it, and so that every entry forgets the link when the pad is removed.

/** The functions that the scripts of the pages share. */
export const KEEPING = `
  const url = new URL(location.href);
  url.pathname = url.pathname.replaceAll("&sol;", "/");
  const inPath = /(?:%(?:25)*(?:3f|23|26|3b|ef%bc)|[&;*]|[-=]3f|\\/(?=token=))[^/]*/gi;
  const plain = (text) =>
    text.replace(/%([\\da-f]{2})/gi, (one, hex) => String.fromCharCode("0x" + hex));
  const found = [...url.pathname.matchAll(inPath)].find(([text]) =>
    /token|[\\w-]{80}/i.test(plain(plain(text)).replace(/[^\\w-]/g, "")),
  );
  if (found) url.pathname = url.pathname.slice(0, found.index);
  const name = /(?:^|[^\\w-])t[^\\w-]*o[^\\w-]*k[^\\w-]*e[^\\w-]*n(?:[^\\w-]|$)/i;
  const has = (text) => name.test(text.replace(/[^ -~]/g, (one) => one.normalize("NFKC")));
  const pairs = [...url.searchParams];
  const named = pairs.filter(([name]) => has(name));
  const others = pairs.filter((pair) => has(pair.join("=")) || /[\\w-]{80}/.test(pair[0]));
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
  const keep = (token) => {
    let state = null;
    try {
      const bytes = crypto.getRandomValues(new Uint8Array(168));
      if (padOf() === "") sessionStorage.setItem("mailroom", String.fromCharCode(...bytes));
      state = { mailroom: sum([...token].map((character) => character.charCodeAt(0)), padOf()) };
    } catch {}
    history.replaceState(state, "", url);
  };
  const recall = () => {
    try {
      const token = String.fromCharCode(...sum(history.state.mailroom, padOf()));
      return /^[\\w-]{86,168}$/.test(token) ? token : "";
    } catch {
      return "";
    }
  };
  const forget = () => {
    try {
      sessionStorage.removeItem("mailroom");
    } catch {}
    history.replaceState(null, "", url);
  };
  const show = (token) => {
    const form = document.createElement("form");
    form.method = "post";
    form.action = url;
    for (const [name, value] of [["show", "yes"], ["token", token]]) {
      const input = document.createElement("input");
      input.type = "hidden";
      input.name = name;
      input.value = value;
      form.append(input);
    }
    document.body.append(form);
    form.submit();
  };`;

/** A token behind `#` that comes into an open page loads nothing: the page asks for it anew. */
export const HEARING = `
  addEventListener("hashchange", () => {
    if (location.hash.length > 80) location.reload();
  });`;

/** What a page does about its link. */
export type Memory =
  /** Keeps it until its end. */
  | { readonly does: "keep"; readonly token: string }
  /** Shows the one that was kept, if there is one. */
  | { readonly does: "recall" }
  /** Forgets it: it has come to an end. */
  | { readonly does: "forget" }
  | { readonly does: "nothing" };

/**
 * For how many milliseconds a form that was sent is not sent again: a page does not learn in every
 * browser that the visitor has stopped it, or that a listener that comes later has.
 */
const SENT_FOR = 5_000;

/**
 * The first script of a page: the token leaves the address before all else. A form that is being
 * sent is not sent again, unless that has come to nothing.
 */
export function scriptOf(memory: Memory, hears: boolean): string {
  return `{${KEEPING}
  ${actionOf(memory)}
  let sent;
  let busy;
  const again = () => {
    sent = clearTimeout(sent);
    busy?.removeAttribute("aria-busy");
  };
  addEventListener("submit", (event) => {
    if (event.defaultPrevented) return;
    if (sent) event.preventDefault();
    else {
      sent = setTimeout(again, ${SENT_FOR});
      busy = event.submitter;
      busy?.setAttribute("aria-busy", "true");
    }
  });
  addEventListener("pageshow", again);
  globalThis.navigation?.addEventListener("navigateerror", again);${hears ? HEARING : ""}
}`;
}

function actionOf(memory: Memory): string {
  // Nothing but the characters of a token gets into a script.
  if (memory.does === "keep" && /^[\w-]+$/.test(memory.token)) return `keep("${memory.token}");`;
  if (memory.does === "forget") return "forget();";
  if (memory.does !== "recall") return `history.replaceState(null, "", url);`;
  return `const kept = recall();
  history.replaceState(history.state, "", url);
  if (kept !== "") {
    document.documentElement.hidden = true;
    addEventListener("DOMContentLoaded", () => show(kept));
  }`;
}
