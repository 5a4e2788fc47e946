const lines = [
  { to: "Harbour", everyMinutes: 7, platform: 1 },
  { to: "Old Mill", everyMinutes: 12, platform: 2 },
  { to: "Observatory Hill", everyMinutes: 15, platform: 2 },
  { to: "Airport", everyMinutes: 20, platform: 4 },
  { to: "Lighthouse", everyMinutes: 30, platform: 3 },
];

/** The next departures of every line after `now`, soonest first. */
export function departures(now) {
  const minute = Math.floor(now.getTime() / 60_000);
  return lines
    .flatMap(({ to, everyMinutes, platform }) => {
      const first = (Math.floor(minute / everyMinutes) + 1) * everyMinutes;
      return [first, first + everyMinutes].map((at) => ({ to, platform, inMinutes: at - minute }));
    })
    .sort((a, b) => a.inMinutes - b.inMinutes || a.to.localeCompare(b.to))
    .slice(0, 6);
}
