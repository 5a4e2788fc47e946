import { limits } from "@svc/proto";

export type PasswordProblem = "too-short" | "too-long" | "too-easy";

/** What is tried first by whoever guesses, without the digits and signs that people put around it. */
const trivialWords = new Set(
  `password passwort passwords passw passwd pass secret geheim letmein welcome willkommen admin administrator root
  login test testing tester guest user username default changeme qwerty qwertz azerty qwertyuiop asdfghjkl zxcvbnm
  qazwsx qazwsxedc iloveyou sunshine princess dragon monkey football baseball basketball superman batman starwars
  pokemon master shadow michael jennifer jordan ashley charlie daniel thomas computer internet whatever trustno
  abc abcd abcde hello hallo freedom flower summer winter spring autumn monday friday january december svc hosting`
    .split(/\s+/)
    .filter((word) => word !== ""),
);

/** Rows of keys and the like: any stretch of one, in either direction, is no secret. */
const rows = [
  "abcdefghijklmnopqrstuvwxyz",
  "01234567890123456789",
  "qwertyuiopasdfghjklzxcvbnm",
  "1qaz2wsx3edc4rfv5tgb",
];
const stretches = rows.flatMap((row) => [row, [...row].reverse().join("")]);

const distinctCharactersMin = 4;
const lookalikes: Readonly<Record<string, string>> = {
  "0": "o",
  "1": "l",
  "3": "e",
  "4": "a",
  "5": "s",
  "@": "a",
  $: "s",
};

/** The word at the heart of `text`: without case, without what stands around it, and with letters for what looks like them. */
function hearts(text: string): string[] {
  const bare = text.toLowerCase().replaceAll(/^[^a-z]+|[^a-z]+$/g, "");
  const inner = text.toLowerCase().replaceAll(/^[^a-z0-9@$]+|[^a-z@$]+$/g, "");
  return [bare, inner.replaceAll(/[01345@$]/g, (sign) => lookalikes[sign] ?? sign)];
}

/** Why `password` may not be used for the account of `email` (null when that is not known); null when it may. */
export function passwordProblem(password: string, email: string | null): PasswordProblem | null {
  if (password.length < limits.accountPasswordLengthMin) return "too-short";
  if (password.length > limits.accountPasswordLengthMax) return "too-long";
  const lower = password.toLowerCase();
  if (new Set(lower).size < distinctCharactersMin) return "too-easy";
  if (stretches.some((row) => row.includes(lower))) return "too-easy";
  const cores = hearts(password);
  if (cores.some((core) => trivialWords.has(core) || trivialWords.has(halved(core)))) return "too-easy";
  return email !== null && isAddressAgain(lower, cores, email.toLowerCase()) ? "too-easy" : null;
}

/** "passwordpassword" is no better than the word once. */
const halved = (text: string) => {
  const half = text.slice(0, text.length / 2);
  return half + half === text ? half : text;
};

function isAddressAgain(lower: string, cores: readonly string[], email: string): boolean {
  const local = email.slice(0, email.lastIndexOf("@"));
  return lower === email || lower === local || (local.length >= 3 && cores.includes(local));
}

/** What to tell whoever chose it. */
export const passwordAdvice: Readonly<Record<PasswordProblem, string>> = {
  "too-short": `The password needs at least ${limits.accountPasswordLengthMin} characters.`,
  "too-long": `The password can have at most ${limits.accountPasswordLengthMax} characters.`,
  "too-easy": "That password is among the first that anybody would try. A few random words make a good one.",
};
