import { create } from "@bufbuild/protobuf";
import {
  Event_EventType,
  EventSchema,
  KeyValueSchema,
  ResponseHeaderSchema,
  type WatchResponse,
  WatchResponseSchema,
} from "@svc/proto/etcd";
import { describe, expect, it, test } from "vitest";
import { bytesOf } from "./entry.ts";
import { onNewStream, type Resume, resumeAfter, stepResume } from "./resume.ts";

const cluster = 7n;
/** Listed at revision 10, so 11 is the next to come. */
const start = resumeAfter(10n, cluster);

type Fields = Partial<Omit<WatchResponse, "header" | "$typeName">> & { at?: bigint };
const response = ({ at = 10n, ...fields }: Fields) =>
  create(WatchResponseSchema, {
    ...fields,
    header: create(ResponseHeaderSchema, { clusterId: cluster, revision: at }),
  });
const event = (type: Event_EventType, key: string, modRevision: bigint) =>
  create(EventSchema, { type, kv: create(KeyValueSchema, { key: bytesOf(key), modRevision }) });
const put = (modRevision: bigint, key = "k") => event(Event_EventType.Put, key, modRevision);
const gone = (modRevision: bigint, key = "k") => event(Event_EventType.Delete, key, modRevision);

function after(resume: Resume, ...responses: WatchResponse[]) {
  const delivered: bigint[][] = [];
  let now = resume;
  for (const one of responses) {
    const step = stepResume(now, one);
    if (step.do !== "continue") return { ended: step.do, delivered };
    if (step.events.length > 0) delivered.push(step.events.map((event) => event.modRevision));
    now = step.resume;
  }
  return { next: now.nextRevision, delivered };
}

test.each([
  { when: "the watch was created", got: [response({ created: true, at: 99n })], next: 11n, delivered: [] },
  { when: "an event came", got: [response({ events: [put(14n)], at: 14n })], next: 15n, delivered: [[14n]] },
  {
    when: "events came while the store is further on",
    got: [response({ events: [put(12n), gone(13n)], at: 99n })],
    next: 14n,
    delivered: [[12n, 13n]],
  },
  { when: "the watch's own progress came", got: [response({ at: 40n })], next: 41n, delivered: [] },
  { when: "progress tells less than was seen", got: [response({ at: 3n })], next: 11n, delivered: [] },
  {
    when: "the whole stream's progress was asked for",
    got: [response({ watchId: -1n, at: 40n })],
    next: 11n,
    delivered: [],
  },
  {
    when: "the server repeats old events",
    got: [response({ events: [put(9n), put(10n), put(11n)] })],
    next: 12n,
    delivered: [[11n]],
  },
  {
    when: "one transaction changed two keys",
    got: [response({ events: [put(11n, "a"), put(11n, "b")] })],
    next: 12n,
    delivered: [[11n, 11n]],
  },
  {
    when: "a part ends within a revision",
    got: [response({ fragment: true, events: [put(11n), put(12n, "a")] })],
    next: 12n,
    delivered: [[11n]],
  },
  {
    when: "the last part completes the revision",
    got: [
      response({ fragment: true, events: [put(11n), put(12n, "a")] }),
      response({ fragment: true, events: [put(12n, "b")] }),
      response({ events: [put(12n, "c"), put(13n)] }),
    ],
    next: 14n,
    delivered: [[11n], [12n, 12n, 12n, 13n]],
  },
])("goes on from $next when $when", ({ got, next, delivered }) => {
  expect(after(start, ...got)).toEqual({ next, delivered });
});

test.each([
  { when: "the history was compacted", got: response({ canceled: true, compactRevision: 30n }), ended: "relist" },
  {
    when: "the creation already says compacted",
    got: response({ created: true, canceled: true, compactRevision: 30n }),
    ended: "relist",
  },
  {
    when: "another cluster answers",
    got: create(WatchResponseSchema, { header: { clusterId: 8n, revision: 50n }, created: true }),
    ended: "relist",
  },
  { when: "the store went back", got: response({ created: true, at: 5n }), ended: "relist" },
  { when: "the server cancels", got: response({ canceled: true, cancelReason: "no permission" }), ended: "reopen" },
])("ends with $ended when $when", ({ got, ended }) => {
  expect(after(start, got)).toEqual({ ended, delivered: [] });
});

describe("a stream that broke within a revision", () => {
  it("takes that revision from the new stream, once and whole", () => {
    const broken = stepResume(start, response({ fragment: true, events: [put(11n, "a")] }));
    if (broken.do !== "continue") throw new Error("should continue");
    const again = after(onNewStream(broken.resume), response({ events: [put(11n, "a"), put(11n, "b")] }));
    expect(again).toEqual({ next: 12n, delivered: [[11n, 11n]] });
  });
});
