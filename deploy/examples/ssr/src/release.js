import { departures } from "./departures.js";

// Runs once per deployment, after the build and before traffic. A non-zero exit keeps the old deployment.
const board = departures(new Date());
console.log(`release: checking the timetable of ${board.length} departures`);
for (const { to, platform, inMinutes } of board) {
  if (!(inMinutes > 0) || !(platform > 0)) {
    console.error(`release: the departure to ${to} makes no sense`);
    process.exit(1);
  }
}
console.log(`release: the timetable is sound (${process.version}, deployment ${process.env.SVC_DEPLOYMENT_ID ?? "unknown"})`);
