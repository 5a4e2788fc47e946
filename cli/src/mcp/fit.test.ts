import { describe, expect, test } from "vitest";
import { countFitting, fit, lastPage, resultBytesMax, weightOf } from "./fit.ts";

const lines = (count: number, width = 80) =>
  Array.from({ length: count }, (_, at) => `${String(at).padStart(width, ".")}\n`).join("");

/** All pages of a text, oldest first. */
function pagesOf(text: string, bytesMax: number): string[] {
  const pages: string[] = [];
  for (let end: number | undefined = text.length; end !== undefined; ) {
    const page = lastPage(text, end, bytesMax);
    pages.unshift(page.text);
    end = page.olderCursor === null ? undefined : Number(page.olderCursor);
  }
  return pages;
}

describe("a page of a text", () => {
  test.each([
    { when: "it is empty", text: "" },
    { when: "it fits", text: "one\ntwo" },
    { when: "it has many lines", text: lines(1000) },
    { when: "its last line has no end", text: `${lines(300)}tail` },
    { when: "it is one long line", text: "x".repeat(50_000) },
    { when: "every character takes many bytes", text: "😀".repeat(9000) },
    { when: "every character has to be escaped", text: '"\\\u0001'.repeat(4000) },
    { when: "it is nothing but line feeds", text: "\n".repeat(20_000) },
  ])("pages of it are all of it, and each fits: $when", ({ text }) => {
    const pages = pagesOf(text, 4096);
    expect(pages.join("")).toBe(text);
    for (const page of pages) expect(weightOf(page)).toBeLessThanOrEqual(4096 + 64);
  });

  test("a text that begins with an empty line and fits is one page", () => {
    expect(lastPage("\nabc\n")).toEqual({ text: "\nabc\n", olderCursor: null });
    expect(lastPage("\n")).toEqual({ text: "\n", olderCursor: null });
  });

  test("it is cut at ends of lines", () => {
    for (const page of pagesOf(lines(500), 4096)) expect(page).toMatch(/^\.+\d+\n[\s\S]*\d\n$/);
  });

  test("what a text grows by moves no cursor, and a cursor beyond it is its end", () => {
    const { olderCursor } = lastPage(lines(100), undefined, 1024);
    const end = Number(olderCursor);
    expect(lastPage(`${lines(100)}more`, end, 1024)).toEqual(lastPage(lines(100), end, 1024));
    expect(lastPage("abc", 99)).toEqual({ text: "abc", olderCursor: null });
    expect(lastPage("abc", -5)).toEqual({ text: "", olderCursor: null });
  });
});

test.each([
  { items: [], count: 0 },
  { items: ["a"], count: 1 },
  { items: ["x".repeat(9000), "b"], count: 1 },
  { items: Array.from({ length: 50 }, () => "x".repeat(96)), count: 20 },
])("$count of the items fit", ({ items, count }) => {
  expect(countFitting(items, 4096)).toBe(count);
});

describe("a payload", () => {
  test("stays as it is where it fits", () => {
    const payload = { a: "x".repeat(9000), list: Array.from({ length: 500 }, () => 1) };
    expect(fit(payload)).toBe(payload);
  });

  test.each([
    { when: "a text is long", payload: { log: "é".repeat(60_000) } },
    { when: "a list is long", payload: { list: Array.from({ length: 9000 }, (_, at) => ({ at })) } },
    { when: "lists of lists are long", payload: { rows: Array.from({ length: 500 }, () => Array(500).fill("cell")) } },
    { when: "something was cut before", payload: { log: "x".repeat(90_000), cut: "Older lines were left out" } },
  ])("fits, and says what went: $when", ({ payload }) => {
    const fitted = fit(payload);
    expect(weightOf(fitted)).toBeLessThanOrEqual(resultBytesMax);
    expect(fitted.cut).toMatch(/long texts were shortened, and \d+ entries/);
    if ("cut" in payload) expect(fitted.cut).toContain("Older lines");
  });
});
