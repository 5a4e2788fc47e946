import { expect, test } from "vitest";
import { encodeEvent, eventName, oneLine } from "./wire.ts";

test.each([
  {
    when: "it has an id",
    data: { a: 1 },
    id: "ab:1",
    text: 'id: ab:1\nevent: e\ndata: {"channel":"c","data":{"a":1}}\n\n',
  },
  { when: "it has none", data: "x", id: null, text: 'event: e\ndata: {"channel":"c","data":"x"}\n\n' },
  { when: "there are no data", data: undefined, id: null, text: 'event: e\ndata: {"channel":"c","data":null}\n\n' },
  { when: "data are a function", data: () => 1, id: null, text: 'event: e\ndata: {"channel":"c","data":null}\n\n' },
  {
    when: "data have line breaks",
    data: "a\r\n\ndata: b\u2028",
    id: null,
    text: 'event: e\ndata: {"channel":"c","data":"a\\r\\n\\ndata: b\u2028"}\n\n',
  },
  {
    when: "the id has line breaks",
    data: 1,
    id: "a\r\n:2",
    text: 'id: a:2\nevent: e\ndata: {"channel":"c","data":1}\n\n',
  },
])("an event when $when", ({ data, id, text }) => {
  expect(encodeEvent({ channel: "c", event: "e", data }, id)).toBe(text);
});

test("a channel cannot break the envelope", () => {
  expect(encodeEvent({ channel: 'a"}\u0000', event: "e", data: 1 }, null)).toBe(
    'event: e\ndata: {"channel":"a\\"}\\u0000","data":1}\n\n',
  );
});

test("what is no JSON throws", () => {
  expect(() => encodeEvent({ channel: "c", event: "e", data: 1n }, null)).toThrow(TypeError);
});

test.each([
  [undefined, "message"],
  ["", "message"],
  ["\r\n", "message"],
  ["a\rb\nc", "abc"],
])("the event %j is written as %s", (name, written) => {
  expect(eventName(name)).toBe(written);
});

test("a line has no line breaks", () => {
  expect(oneLine("\ra\n\r\nb")).toBe("ab");
});
