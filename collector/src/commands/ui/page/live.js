// Shows the page as it is now, every five seconds, while somebody looks at it.
const PAUSE = 5_000;

const follow = document.querySelector("#follow");
const age = document.querySelector("#age");

async function update() {
  const answer = await fetch(location.href, { cache: "no-store" });
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  const shown = parsed.querySelector("#shown");
  if (shown === null) {
    // The session has ended, or the database is away: the whole page says which.
    throw new Error(parsed.querySelector("[role=alert], h1")?.textContent ?? answer.statusText);
  }
  document.querySelector("#shown").replaceWith(document.adoptNode(shown));
}

async function tick() {
  if (follow.checked && document.visibilityState === "visible") {
    try {
      await update();
      age.textContent = `As of ${new Date().toLocaleTimeString()}.`;
      age.className = "";
    } catch (error) {
      const reason = error instanceof TypeError ? "mailroom ui has ended." : error.message;
      age.textContent = `Not updated: ${reason}`;
      age.className = "critical";
    }
  }
  setTimeout(tick, PAUSE);
}

document.querySelector("#live").hidden = false;
setTimeout(tick, PAUSE);
