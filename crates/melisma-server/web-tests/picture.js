// The README's pictures: the page while it plays, in light and dark, in the folder named by the argument.
import { join } from "node:path";
import { launch, open, pause, playing, serve } from "./harness.js";

const FOLDER = process.argv[2];
/** Until the second bar is full. */
const PLAYED_MS = 6000;

const [server, browser] = await Promise.all([serve(), launch()]);
for (const colorScheme of ["light", "dark"]) {
  const page = await open(browser, server, { colorScheme, viewport: { width: 1200, height: 776 } });
  await page.click("#play");
  await playing(page);
  await pause(PLAYED_MS);
  // Latencies and places belong to the machine that drew the picture.
  await page.evaluate(() => {
    for (const part of document.querySelectorAll("dl:has(#underruns), .status")) part.style.visibility = "hidden";
  });
  await page.screenshot({ path: join(FOLDER, `page-${colorScheme}.png`) });
  await page.context().close();
}
await browser.close();
await server.stop();
