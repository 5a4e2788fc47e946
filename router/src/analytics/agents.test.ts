import { expect, test } from "vitest";
import { createAgents, describeAgent } from "./agents.ts";

const bot = { device: "bot", browser: "(bot)", operatingSystem: "(bot)" };

test.each([
  {
    ua: "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 Safari/537.36",
    is: { device: "desktop", browser: "Chrome", operatingSystem: "Windows" },
  },
  {
    ua: "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0",
    is: { device: "desktop", browser: "Firefox", operatingSystem: "Linux" },
  },
  {
    ua: "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1",
    is: { device: "mobile", browser: "Safari", operatingSystem: "iOS" },
  },
  {
    ua: "Mozilla/5.0 (iPad; CPU OS 12_2 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/12.1 Mobile/15E148 Safari/604.1",
    is: { device: "tablet", browser: "Safari", operatingSystem: "iOS" },
  },
  { ua: "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", is: bot },
  { ua: "curl/8.5.0", is: bot },
  // What takes screenshots.
  {
    ua: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/142.0.0.0 Safari/537.36",
    is: bot,
  },
  { ua: "", is: bot },
  { ua: "\ufffd\ufffd", is: { device: "(unknown)", browser: "(unknown)", operatingSystem: "(unknown)" } },
  { ua: "A".repeat(8192), is: bot },
  ...[`${"\u00e9".repeat(150)}/1 x`, "shop\u200bof/2 (x", "Alice 0123/2 (x)"].map((ua) => ({
    ua,
    is: { device: "(unknown)", browser: "(unknown)", operatingSystem: "(unknown)" },
  })),
])("$ua is of $is", ({ ua, is }) => expect(describeAgent(ua)).toEqual(is));

test("those that were asked for last are kept, and all are told right", () => {
  const agents = createAgents(2);
  for (const ua of ["curl/1", "Firefox/143.0", "curl/2", "curl/1", "Firefox/143.0"]) {
    expect(agents(ua)).toEqual(describeAgent(ua));
  }
  expect(agents("curl/1")).toBe(agents("curl/1"));
});
