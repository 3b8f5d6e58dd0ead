// Shows the page as it is now, every five seconds, while somebody looks at it; less often where the
// database takes long.
const PAUSE = 5_000;

const follow = document.querySelector("#follow");
const age = document.querySelector("#age");

async function update() {
  const answer = await fetch(location.href, { cache: "no-store" });
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  const shown = parsed.querySelector("#shown");
  if (shown === null) {
    // The session has ended, or the database is away: the whole page says which.
    const alert = parsed.querySelector("[role=alert]") ?? parsed.querySelector("h1");
    throw new Error(alert?.textContent ?? answer.statusText);
  }
  document.querySelector("#shown").replaceWith(document.adoptNode(shown));
}

async function tick() {
  const began = Date.now();
  if (follow.checked && document.visibilityState === "visible") {
    try {
      await update();
      age.textContent = `As of ${new Date().toLocaleTimeString()}.`;
      age.className = "";
    } catch (error) {
      const reason = error instanceof TypeError ? "mailroom ui does not answer." : error.message;
      age.textContent = `Not updated: ${reason}`;
      age.className = "critical";
    }
  }
  setTimeout(tick, Math.max(PAUSE, 10 * (Date.now() - began)));
}

document.querySelector("#live").hidden = false;
setTimeout(tick, PAUSE);
