import { expect, test } from "vitest";
import { isPrivateListen } from "./private-listen.ts";

test.each([
  { listen: "127.0.0.1:9100", is: true },
  { listen: "localhost:9100", is: true },
  { listen: "[::1]:9100", is: true },
  { listen: "10.0.0.7:9100", is: true },
  { listen: "172.31.255.1:9100", is: true },
  { listen: "100.64.0.1:9100", is: true },
  { listen: "[fd00::7]:9100", is: true },
  { listen: "0.0.0.0:9100", is: false },
  { listen: "[::]:9100", is: false },
  { listen: ":9100", is: false },
  { listen: "172.32.0.1:9100", is: false },
  { listen: "198.51.100.7:9100", is: false },
  { listen: "[2001:db8::7]:9100", is: false },
  { listen: "metrics.svc.test:9100", is: false },
])("$listen is private: $is", ({ listen, is }) => {
  expect(isPrivateListen(listen)).toBe(is);
});
