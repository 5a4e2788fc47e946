import type { z } from "zod";

type Issue = z.core.$ZodIssue;

/** How zod's own messages begin. A schema that has something better to say writes a message of its own. */
const ofZod = /^(Invalid |Too (small|big): )/;
const choicesShownMax = 20;

const types: Readonly<Record<string, string>> = {
  string: "text",
  number: "a number",
  int: "a whole number",
  boolean: "true or false",
  array: "a list",
  object: "an object",
  record: "an object",
  null: "null",
};

const formats: Readonly<Record<string, string>> = {
  guid: "is not an id",
  uuid: "is not an id",
  datetime: "is not a timestamp; write it like 2030-01-31T12:00:00Z",
  date: "is not a date; write it like 2030-01-31",
  email: "is not an email address",
  url: "is not a URL",
};

/** What is wrong with a value, to be read after its name: "is missing", "must be at least 1". */
export function issueText(issue: Issue): string {
  if (!ofZod.test(issue.message)) return issue.message;
  switch (issue.code) {
    case "invalid_type":
      return isAbsent(issue) ? "is missing" : `is not ${types[issue.expected] ?? "of the type that is needed"}`;
    case "too_small":
      return tooSmall(issue);
    case "too_big":
      return tooBig(issue);
    case "invalid_format":
      return formats[issue.format] ?? "does not have the form that is needed";
    case "not_multiple_of":
      return `must be a multiple of ${issue.divisor}`;
    case "invalid_value":
      return oneOf(issue.values);
    case "invalid_union":
      return "options" in issue && issue.options !== undefined ? oneOf(issue.options) : noneOf(issue.errors);
    case "invalid_key":
      return "is no name that it may have";
    default:
      return "is not valid";
  }
}

/** An issue does not carry the value that it is about; its message says what was received. */
const isAbsent = (issue: Issue): boolean =>
  issue.code === "invalid_type" && issue.message.endsWith("received undefined");

const countOf = (count: number | bigint, one: string, more: string): string => `${count} ${count === 1 ? one : more}`;

/** `count` of what such a value consists of; null for a value that is itself a number. */
function partsOf(origin: string, count: number | bigint): string | null {
  if (origin === "string") return countOf(count, "character", "characters");
  return ["array", "set", "map", "record"].includes(origin) ? countOf(count, "entry", "entries") : null;
}

function tooSmall({ origin, minimum, inclusive, exact }: z.core.$ZodIssueTooSmall): string {
  const parts = partsOf(origin, minimum);
  if (parts === null) return `must be ${inclusive === false ? "more than" : "at least"} ${minimum}`;
  if (exact) return `needs exactly ${parts}`;
  return minimum === 1 ? "is empty" : `needs at least ${parts}`;
}

function tooBig({ origin, maximum, inclusive, exact }: z.core.$ZodIssueTooBig): string {
  const parts = partsOf(origin, maximum);
  if (parts === null) return `must be ${inclusive === false ? "less than" : "at most"} ${maximum}`;
  return exact ? `needs exactly ${parts}` : `has more than ${parts}`;
}

function oneOf(values: readonly z.core.util.Primitive[]): string {
  const shown = values.slice(0, choicesShownMax).map(String).join(", ");
  return values.length === 1
    ? `must be ${shown}`
    : `must be one of ${shown}${values.length > choicesShownMax ? ", …" : ""}`;
}

/** For a value that is none of several things: why it is not each of them. */
function noneOf(branches: readonly (readonly Issue[])[]): string {
  const first = branches.flatMap(([issue]) => (issue === undefined || issue.path.length > 0 ? [] : [issue]));
  if (first.length !== branches.length || first.length === 0) return "is not valid";
  if (first.every(isAbsent)) return "is missing";
  const texts = [...new Set(first.map(issueText))];
  const nouns = texts.flatMap((text) => /^is not (an? [^;]+|text)/.exec(text)?.[1] ?? []);
  return nouns.length === 2 && texts.length === 2 ? `is neither ${nouns.join(" nor ")}` : texts.join("; ");
}
