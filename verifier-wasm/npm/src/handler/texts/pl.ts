import type { Texts } from "../texts.js";

export const pl: Texts = {
  actions: {
    activate: {
      title: "Aktywuj swoje konto",
      text: "Naciśnij przycisk, aby aktywować konto. Otwarcie tej strony niczego nie zmieniło.",
      button: "Aktywuj moje konto",
      done: "Twoje konto jest aktywne",
    },
    recover: {
      title: "Odzyskaj swoje konto",
      text: "Wpisz kod z wiadomości, w której był ten link (liczba cyfr: {digits}).",
      button: "Odzyskaj moje konto",
      done: "Twoje konto zostało odzyskane",
    },
    sign_in: {
      title: "Zaloguj się",
      text: "Naciśnij przycisk, aby się zalogować. Otwarcie tej strony niczego nie zmieniło.",
      button: "Zaloguj się",
      done: "Logowanie powiodło się",
    },
    invite: {
      title: "Przyjmij zaproszenie",
      text: "Naciśnij przycisk, aby przyjąć zaproszenie. Otwarcie tej strony niczego nie zmieniło.",
      button: "Przyjmij zaproszenie",
      done: "Zaproszenie zostało przyjęte",
    },
    change_email: {
      title: "Potwierdź nowy adres e-mail",
      text:
        "Naciśnij przycisk, aby przypisać ten adres do swojego konta. " +
        "Otwarcie tej strony niczego nie zmieniło.",
      button: "Potwierdź adres",
      done: "Twoje konto ma nowy adres",
    },
    other: {
      title: "Potwierdź",
      text: "Naciśnij przycisk, aby potwierdzić. Otwarcie tej strony niczego nie zmieniło.",
      button: "Potwierdź",
      done: "Potwierdzono",
    },
  },
  code: "Kod (liczba cyfr: {digits})",
  password: {
    label: "Nowe hasło",
    hint: "Minimalna liczba znaków: {min}. Dobrym wyborem jest kilka słów obok siebie.",
    show: "Pokaż hasło",
    title: "Wybierz inne hasło",
    text: "Hasło musi mieć odpowiednią długość (liczba znaków: od {min} do {max}).",
  },
  browserCode: "Cyfry z drugiej przeglądarki ({digits})",
  elsewhere:
    "Prośbę o ten link wysłano z innej przeglądarki. Wpisz {digits} cyfr, które są tam widoczne.",
  elsewhereWithCode:
    "Prośbę o ten link wysłano z innej przeglądarki. Wpisz kod oraz {digits} cyfr, " +
    "które są tam widoczne.",
  close: "Możesz zamknąć tę stronę. Link już nie działa.",
  newLink: "Poproś o nowy link",
  renewed: {
    button: "Wyślij nowy link",
    title: "Sprawdź pocztę",
    text: "Jeśli można wysłać nowy link, jest już w drodze.",
  },
  signIn: "Zaloguj się",
  onward: { title: "Dalej", text: "Trwa przekierowanie. Jeśli nic się nie dzieje, użyj linku." },
  invalid: {
    title: "Ten link jest nieprawidłowy",
    text:
      "Może brakować jego części. Otwórz go z najnowszej wiadomości lub skopiuj go w całości do " +
      "paska adresu, od https:// do ostatniego znaku, także to, co jest w drugim wierszu. " +
      "Jeśli to nie pomoże, poproś o nowy link.",
  },
  expired: { title: "Ten link wygasł", text: "Poproś o nowy link." },
  used: {
    title: "Ten link został już użyty",
    text:
      "Link działa tylko raz. Jeśli to Ty, nie musisz nic więcej robić. " +
      "Jeśli nie, poproś o nowy link.",
  },
  locked: {
    title: "Wypróbowano zbyt wiele kodów",
    text: "Nawet właściwy kod nie otworzy już tego linku. Poproś o nowy link.",
  },
  lockedElsewhere: "Otwórz link w przeglądarce, z której wysłano prośbę o niego. Tam nadal działa.",
  ineligible: {
    title: "Ten link nie działa teraz dla tego konta",
    text: "Być może konto jest już aktywne lub zablokowane. Link pozostaje bez zmian.",
  },
  error: {
    title: "Otwórz link ponownie",
    text:
      "Ta strona nie wie, który link został otwarty. Otwórz link z wiadomości i naciśnij " +
      "przycisk. Jeśli był już naciśnięty, strona pokaże, czy się udało.",
  },
  failure: {
    title: "W tym serwisie wystąpił problem",
    text: "Ponowna próba jeszcze nie pomoże. Powiadom osoby, które prowadzą ten serwis.",
  },
  blocked: {
    title: "Otwórz link ponownie",
    text:
      "Otwórz jeszcze raz link z wiadomości. Jeśli znów zobaczysz tę stronę, " +
      "zezwól temu serwisowi na pliki cookie.",
  },
  scripts: {
    title: "Zezwól na skrypty na tej stronie",
    text:
      "Bez skryptów nie można odczytać tego linku. " +
      "Zezwól temu serwisowi na JavaScript i otwórz ponownie link z wiadomości.",
  },
  wrongCode: {
    title: "To nie jest właściwy kod",
    text: "Sprawdź cyfry i wpisz kod ponownie (liczba cyfr: {digits}).",
  },
  missingCode: { title: "Wpisz cały kod", text: "Wpisz wszystkie cyfry kodu (jest ich {digits})." },
  wrongCodes: {
    title: "To nie są właściwe cyfry",
    text: "Sprawdź kod i cyfry z drugiej przeglądarki, a potem wpisz je ponownie.",
  },
  missingCodes: {
    title: "Wpisz wszystkie cyfry",
    text: "Wpisz cały kod oraz wszystkie cyfry widoczne w drugiej przeglądarce.",
  },
  away: {
    title: "Spróbuj ponownie za chwilę",
    text: "Nie możemy teraz odpowiedzieć. Nic się nie zmieniło, a Twój link nadal działa.",
  },
  unknown: {
    title: "Spróbuj ponownie za chwilę",
    text:
      "Nie wiemy, czy się udało. " +
      "Jeśli potem strona pokaże, że link został już użyty, to się udało.",
  },
};
