/** What the form asks for. Lengths are in characters, as the table checks them, too. */
export const fields = [
  { name: "title", label: "Title", lengthMax: 120, required: true },
  { name: "author", label: "Author", lengthMax: 80, required: false },
  { name: "note", label: "Why this one?", lengthMax: 280, required: false },
];

/** Control characters have no place in a line of text, and Postgres takes no NUL. */
const tidy = (text) => text.replace(/[\p{Cc}\s]+/gu, " ").trim();

/** Values of a sent form by field, and what is wrong with them in words; `problem` is null when nothing is. */
export function readForm(sent) {
  const values = Object.fromEntries(fields.map(({ name }) => [name, tidy(sent.get(name) ?? "")]));
  for (const { name, label, lengthMax, required } of fields) {
    if (required && values[name] === "") return { values, problem: `${label} is missing.` };
    if ([...values[name]].length > lengthMax) return { values, problem: `${label} is longer than ${lengthMax} characters.` };
  }
  return { values, problem: null };
}
