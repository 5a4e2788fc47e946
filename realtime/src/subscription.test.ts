import { expect, test } from "vitest";
import { readSubscription } from "./subscription.ts";

test.each([
  { when: "nothing is asked for", url: "/events", channels: null, lastEventId: null },
  { when: "channels are named", url: "/events?channels=a,b", channels: ["a", "b"], lastEventId: null },
  { when: "they are encoded", url: "https://x.test/e?channels=a%2Cb%20c", channels: ["a", "b c"], lastEventId: null },
  { when: "one is named twice", url: "/e?channels=a,a&channels=b", channels: ["a", "b"], lastEventId: null },
  { when: "one has line breaks", url: "/e?channels=a%0D%0Ab", channels: ["ab"], lastEventId: null },
  { when: "the list is empty", url: "/e?channels=,", channels: null, lastEventId: null },
  { when: "the query has an id", url: "/e?lastEventId=ab%3A2", channels: null, lastEventId: "ab:2" },
  { when: "the path begins like a host", url: "//x?channels=a", channels: ["a"], lastEventId: null },
  { when: "there is no URL", url: "", channels: null, lastEventId: null },
])("when $when", ({ url, channels, lastEventId }) => {
  expect(readSubscription(url, null)).toEqual({ channels, lastEventId });
});

test("the id of the query beats that of the header", () => {
  expect(readSubscription("/e?lastEventId=ab:2", "ab:7").lastEventId).toBe("ab:2");
  expect(readSubscription("/e", "ab:7").lastEventId).toBe("ab:7");
});
