import { expect, test } from "vitest";
import { countOpen } from "./open.ts";

const header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const row = (local: string, remote: string, state: string) =>
  `   0: ${local} ${remote} ${state} 00000000:00000000 00:00000000 00000000     0        0 1 1`;
const app = "0201D60A:0BB8";
const visitor = "0101D60A:9C40";

test.each([
  { when: "nobody is connected", rows: [row("00000000:0BB8", "00000000:0000", "0A")], open: 0 },
  { when: "visitors are connected", rows: [row(app, visitor, "01"), row(app, "0101D60A:9C41", "01")], open: 2 },
  {
    when: "a visitor is connected to an app that listens on IPv6",
    rows: [row("0000000000000000FFFF00000201D60A:0BB8", "0000000000000000FFFF00000101D60A:9C40", "01")],
    open: 1,
  },
  { when: "the end of an answer is still on its way", rows: [row(app, visitor, "04")], open: 1 },
  { when: "the visitor has left", rows: [row(app, visitor, "08")], open: 0 },
  { when: "a connection is over", rows: [row(app, visitor, "06")], open: 0 },
  { when: "the app is connected to a database", rows: [row("0201D60A:9C40", "0301D60A:1538", "01")], open: 0 },
  { when: "the container is connected to itself", rows: [row("0100007F:0BB8", "0100007F:9C40", "01")], open: 0 },
])("when $when: $open", ({ rows, open }) => {
  expect(countOpen([header, ...rows].join("\n"), 3000)).toBe(open);
});
