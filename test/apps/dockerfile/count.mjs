import { readFileSync } from "node:fs";

const stars = readFileSync("catalogue.txt", "utf8").trim().split("\n");
const counts = Object.groupBy(stars, (line) => line.split(" ")[0].toLowerCase());
console.log(JSON.stringify(Object.fromEntries(Object.entries(counts).map(([name, found]) => [name, found.length]))));
