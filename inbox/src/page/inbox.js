// The page: asks for new mails, lists them and shows one. All that a mail says becomes text; its
// HTML is shown only in frames that run no scripts.

const byId = (id) => document.getElementById(id);

/** The mails that the page knows, by id. */
const mails = new Map();
let shown;
let view = "light";

async function json(path, options) {
  const response = await fetch(path, options);
  if (!response.ok) throw new Error((await response.text()).trim());
  return response.json();
}

/** Asks for new mails, again and again. An answer comes when there is one, or after the wait. */
async function follow() {
  let newest = 0;
  for (;;) {
    try {
      const found = await json(`/mails?after=${newest}&wait=30s`);
      const wasEmpty = mails.size === 0;
      for (const mail of found.toReversed()) add(mail);
      // One that somebody reads stays.
      if (wasEmpty && found.length > 0) show(found[0].id);
      newest = Math.max(newest, ...mails.keys());
      say();
    } catch {
      byId("state").textContent = "The inbox has ended. The page goes on when it runs again.";
      await new Promise((resolve) => setTimeout(resolve, 1000));
      newest = await startAgain(newest);
    }
  }
}

/** The ids of a server that was started again begin anew. */
async function startAgain(newest) {
  try {
    const found = await json("/mails");
    if (found.length > 0 && found[0].id >= newest) return newest;
  } catch {
    return newest;
  }
  forget();
  return 0;
}

function say() {
  const count = mails.size;
  byId("state").textContent =
    count === 0 ? "Waiting for the first mail." : count === 1 ? "1 mail" : `${count} mails`;
  byId("clear").hidden = count === 0;
}

function add(mail) {
  mails.set(mail.id, mail);
  const item = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.id = `mail-${mail.id}`;
  button.addEventListener("click", () => show(mail.id));
  item.append(button);
  byId("mails").prepend(item);
  entitle(mail);
}

function entitle(mail) {
  const line = (text, name) => {
    const span = document.createElement("span");
    span.textContent = text;
    span.className = name;
    return span;
  };
  const time = new Date(mail.at).toLocaleTimeString();
  byId(`mail-${mail.id}`).replaceChildren(
    mail.fault === null ? mail.subject : line("There is no mail", "fault"),
    line([mail.to, mail.action, time].filter((word) => word !== "").join(", "), ""),
  );
}

function show(id) {
  shown = id;
  const mail = mails.get(id);
  for (const button of byId("mails").querySelectorAll("button")) {
    button.setAttribute("aria-current", String(button.id === `mail-${id}`));
  }
  byId("mail").hidden = false;
  byId("subject").textContent = mail.fault === null ? mail.subject : "There is no mail";
  byId("fault").hidden = mail.fault === null;
  byId("fault").textContent = mail.fault;
  for (const name of ["from", "to", "action", "code", "link"]) byId(name).textContent = mail[name];
  // Of another scheme no link of Mailroom is.
  if (/^https?:\/\//.test(mail.link)) byId("link").href = mail.link;
  // A mail that came by SMTP does not say it, nor has it templates here.
  byId("end").textContent = new Date((mail.expires_at ?? 0) * 1000).toLocaleString();
  byId("again").hidden = !mail.is_rewritable;
  byId("payload").textContent = JSON.stringify(mail.payload);
  for (const [name, there] of [
    ["link", mail.link !== ""],
    ["code", mail.code !== ""],
    ["end", mail.expires_at !== null && (mail.link !== "" || mail.code !== "")],
    ["action", mail.action !== ""],
    ["payload", mail.payload !== null],
  ]) {
    for (const part of document.querySelectorAll(`.of-${name}`)) part.hidden = !there;
  }
  draw();
}

async function draw() {
  const mail = mails.get(shown);
  const isFrame = view === "light" || view === "dark";
  byId("mail").className = view;
  byId("frames").hidden = !isFrame || mail.fault !== null;
  byId("plain").hidden = isFrame || mail.fault !== null;
  for (const button of document.querySelectorAll("[data-view]")) {
    button.setAttribute("aria-pressed", String(button.dataset.view === view));
  }
  if (isFrame) {
    for (const frame of document.querySelectorAll("iframe")) {
      frame.src = `/mails/${mail.id}/html?${view}`;
    }
  } else if (view === "text") {
    byId("plain").textContent = mail.text;
  } else {
    const source = await (await fetch(`/mails/${mail.id}/source`)).text();
    if (view === "source" && shown === mail.id) byId("plain").textContent = source;
  }
}

function forget() {
  mails.clear();
  byId("mails").replaceChildren();
  byId("mail").hidden = true;
  say();
}

for (const button of document.querySelectorAll("[data-view]")) {
  button.addEventListener("click", () => {
    view = button.dataset.view;
    draw();
  });
}

for (const button of document.querySelectorAll("[data-copies]")) {
  const name = button.textContent;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(byId(button.dataset.copies).textContent);
    button.textContent = "Copied";
    setTimeout(() => {
      button.textContent = name;
    }, 2000);
  });
}

byId("again").addEventListener("click", async () => {
  const mail = await json(`/mails/${shown}/again`, { method: "POST" });
  mails.set(mail.id, mail);
  entitle(mail);
  show(mail.id);
});

byId("clear").addEventListener("click", async () => {
  await fetch("/mails", { method: "DELETE" });
  forget();
});

follow();
