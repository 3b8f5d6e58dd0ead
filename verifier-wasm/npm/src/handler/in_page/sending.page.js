/** A form that is being sent is not sent again, unless that has come to nothing. */
export default function sending() {
  // A page does not learn in every browser that the visitor has stopped it, or that a listener that
  // comes later has.
  const SENT_FOR = 5_000;
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
      sent = setTimeout(again, SENT_FOR);
      busy = event.submitter;
      busy?.setAttribute("aria-busy", "true");
    }
  });
  addEventListener("pageshow", again);
  globalThis.navigation?.addEventListener("navigateerror", again);
}
