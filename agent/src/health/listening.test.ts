import { expect, test } from "vitest";
import { explainListeners, parseListeners } from "./listening.ts";

const header = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode";
const row = (local: string, state: string) =>
  `   0: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000     0        0 1 1`;
const tcp6 = "00000000000000000000000000000000:0BB8";
const tcp6Loopback = "00000000000000000000000001000000:0BB8";
const tcp6Mapped = "0000000000000000FFFF00000100007F:0BB8";

test.each([
  { when: "it listens everywhere", rows: [row("00000000:0BB8", "0A")], says: null },
  { when: "it listens everywhere on IPv6", rows: [row(tcp6, "0A")], says: null },
  { when: "it listens on 127.0.0.1", rows: [row("0100007F:0BB8", "0A")], says: "0.0.0.0:3000" },
  { when: "it listens on ::1", rows: [row(tcp6Loopback, "0A")], says: "0.0.0.0:3000" },
  { when: "it listens on mapped 127.0.0.1", rows: [row(tcp6Mapped, "0A")], says: "0.0.0.0:3000" },
  { when: "it listens on another port", rows: [row("00000000:1F90", "0A")], says: "port 8080 instead of 3000" },
  {
    when: "only the engine's resolver listens",
    rows: [row("0B00007F:9C40", "0A")],
    says: "Nothing listens on port 3000",
  },
  { when: "the port is only connected to", rows: [row("00000000:0BB8", "01")], says: "Nothing listens on port 3000" },
])("when $when", ({ rows, says }) => {
  const explained = explainListeners(parseListeners([header, ...rows].join("\n")), 3000);
  if (says === null) expect(explained).toBeNull();
  else expect(explained).toContain(says);
});
