import { expect, test } from "vitest";
import { errorText } from "./error-text.ts";
import { plain } from "./paint.ts";

test.each([
  {
    when: "one line",
    message: "There is no manifest",
    hint: "Create one with `svc init`",
    text: "Error: There is no manifest (UNEXPECTED)\n→ Create one with `svc init`",
  },
  { when: "no hint", message: "It broke.", text: "Error: It broke. (UNEXPECTED)" },
  {
    when: "several lines",
    message: "The source is too large. Most of it is in\n  9 MiB  films",
    hint: "Leave it out",
    text: "Error: The source is too large. Most of it is in\n  9 MiB  films\n(UNEXPECTED)\n→ Leave it out",
  },
  {
    when: "the words of a program",
    message: "The app exited with code 1 before it answered. Last lines:\nError: boom\n    at f (/app/s.js:1:1)",
    text: "Error: The app exited with code 1 before it answered. (UNEXPECTED)\nLast lines:\n  Error: boom\n      at f (/app/s.js:1:1)",
  },
])("an error of $when never has its code in the middle of a sentence", ({ message, hint, text }) => {
  expect(errorText({ code: "UNEXPECTED", message, hint }, plain)).toBe(text);
});
