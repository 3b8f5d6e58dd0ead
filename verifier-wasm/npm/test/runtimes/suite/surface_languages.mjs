// The texts of the entry `./languages`, which has nothing to call.

export function fixtureOfLanguages({ entries }) {
  const { de } = entries["./languages"];
  return {
    text: "a text",
    samples: {
      Texts: de,
      // An index signature declares the other names.
      "Texts.actions": { other: de.actions.other },
      ActionTexts: de.actions.other,
      Message: de.used,
      // What it has of a message is declared there.
      "Texts.renewed": { button: de.renewed.button },
      PasswordTexts: de.password,
    },
    recipes: {},
  };
}
