import bowser from "bowser";
import { isbot } from "isbot";

/** What a browser says that it is, as far as it is counted. */
export interface Agent {
  device: string;
  browser: string;
  operatingSystem: string;
}

export type DescribeAgent = (userAgent: string) => Agent;

/** Nobody who reads a page. */
export const botDevice = "bot";
const bot: Agent = { device: botDevice, browser: "(bot)", operatingSystem: "(bot)" };
const unknown = "(unknown)";
/** Of anything else the parser takes part of the text for a name: whoever sent it could write there what they like. */
const knownBrowsers: ReadonlySet<string> = new Set([...Object.values(bowser.BROWSER_MAP), "Miui", "Opera Touch"]);

/** Who says nothing of itself is no browser. */
export function describeAgent(userAgent: string): Agent {
  if (userAgent === "" || isbot(userAgent)) return bot;
  const { browser, os, platform } = bowser.parse(userAgent);
  if (platform.type === botDevice) return bot;
  return {
    device: platform.type ?? (os.name === undefined ? unknown : "desktop"),
    browser: browser.name !== undefined && knownBrowsers.has(browser.name) ? browser.name : unknown,
    operatingSystem: os.name || unknown,
  };
}

/** Reading one takes longer than all else that is done with a line, and most have been read before: the last `max` are kept. */
export function createAgents(max = 4096): DescribeAgent {
  const known = new Map<string, Agent>();
  return (userAgent) => {
    const found = known.get(userAgent) ?? describeAgent(userAgent);
    // To the end: the first one has not been asked for longest.
    known.delete(userAgent);
    known.set(userAgent, found);
    const [oldest] = known.keys();
    if (known.size > max && oldest !== undefined) known.delete(oldest);
    return found;
  };
}
