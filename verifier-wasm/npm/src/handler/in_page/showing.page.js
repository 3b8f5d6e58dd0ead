/** The box that shows a password as it is typed. None is sent while it is shown. */
export default function showing() {
  addEventListener("DOMContentLoaded", () => {
    const [field, box] = ["password", "password-show"].map((id) => document.getElementById(id));
    if (!field || !box) return;
    const set = () => {
      field.type = box.checked ? "text" : "password";
    };
    box.closest("p").hidden = false;
    box.addEventListener("change", set);
    addEventListener("submit", () => {
      box.checked = false;
      set();
    });
  });
}
