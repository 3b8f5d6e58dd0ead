/**
 * Of links whose token is behind `#`, which is in no request: takes it out of the address, checks
 * the signature of v3 (token-format.md), and sends it in a body, to be shown the form. A browser
 * that cannot check leaves it to the server, as all else about the token.
 */
export default function opening({ clean, keep, recall, show, hear }, keys) {
  const token = location.hash.replace(/^#(\W*token(?:=|%3d))?|&(?!#).*/gi, "") || recall();
  if (/^[\w-]{86,168}$/.test(token)) keep(token);
  else clean(null);
  hear();
  const bytes = (text) => {
    const decoded = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
    return Uint8Array.from(decoded, (character) => character.charCodeAt(0));
  };
  const isForged = async () => {
    if (!/^[\w-]{147}(?:[\w-]{21})?$/.test(token)) return false;
    const all = bytes(token);
    const domain = new TextEncoder().encode("mailroom/v3 link\0");
    const signed = new Uint8Array([...domain, ...all.slice(0, -64)]);
    for (const name of keys) {
      const key = await crypto.subtle.importKey("raw", bytes(name), "Ed25519", false, ["verify"]);
      if (await crypto.subtle.verify("Ed25519", key, all.slice(-64), signed)) return false;
    }
    return true;
  };
  const forged = isForged().catch(() => false);
  addEventListener("DOMContentLoaded", async () => {
    const id = token === "" ? "error" : (await forged) ? "invalid" : "";
    if (id !== "") {
      document.getElementById(id).hidden = false;
      return;
    }
    show(token);
  });
}
