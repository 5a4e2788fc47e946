import { expect, expectTypeOf, test } from "vitest";
import { defineRealtimeEvents, eventsFor } from "./events.ts";

const events = defineRealtimeEvents({ todos: ["added", "removed"], chat: [] });

test("the names of a channel are those that were defined, with their types", () => {
  expect(eventsFor(events, "todos")).toEqual(["added", "removed"]);
  expectTypeOf(eventsFor(events, "todos")).toEqualTypeOf<readonly ["added", "removed"]>();
  expectTypeOf<Parameters<typeof eventsFor<typeof events, "todos">>[1]>().toEqualTypeOf<"todos">();
});

test.each(["nothing", "constructor", "toString", "__proto__"])("%s is no channel unless it was defined", (channel) => {
  expect(eventsFor<Record<string, readonly string[]>, string>(events, channel)).toEqual([]);
});
