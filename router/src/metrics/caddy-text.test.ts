import { expect, test } from "vitest";
import { valueOfMetric } from "./caddy-text.ts";

const text = [
  "# HELP process_open_fds Number of open file descriptors.",
  "# TYPE process_open_fds gauge",
  "process_open_fds 12",
  "process_open_fds_max 99",
  'caddy_http_requests_in_flight{handler="a b",server="http"} 3',
  'caddy_http_requests_in_flight{handler="c",server="https"} 4',
  "process_resident_memory_bytes 5.12e+07",
  "broken NaN",
].join("\n");

test.each([
  { name: "process_open_fds", value: 12 },
  { name: "caddy_http_requests_in_flight", value: 7 },
  { name: "process_resident_memory_bytes", value: 51_200_000 },
  { name: "process_open", value: null },
  { name: "broken", value: null },
])("$name is $value", ({ name, value }) => {
  expect(valueOfMetric(text, name)).toBe(value);
});
