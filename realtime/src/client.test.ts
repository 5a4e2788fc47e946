import { expect, test } from "vitest";
import { subscribe } from "./client.ts";

test.each(["/events", "events", "http://"])("where there is no location, the URL %s throws at once", (url) => {
  expect(() => subscribe({ url, onEvent: () => {} })).toThrow(TypeError);
});

test("where there is no EventSource it throws at once", () => {
  expect(() => subscribe({ url: "https://app.test/events", onEvent: () => {} })).toThrow(/EventSource/);
});
