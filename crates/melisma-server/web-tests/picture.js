// The README's pictures, in light and dark, in the folder named by the argument: the page while it plays, and the
// report of the demo.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { blank, environment, launch, open, pause, playing, serve } from "./harness.js";

const FOLDER = process.argv[2];
const COLOURS = ["light", "dark"];
const VIEWPORT = { width: 1200, height: 776 };
/** Until the second bar is full. */
const PLAYED_MS = 6000;

async function drawPage(browser) {
  const server = await serve();
  for (const colorScheme of COLOURS) {
    const page = await open(browser, server, { colorScheme, viewport: VIEWPORT });
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
  await server.stop();
}

async function drawReport(browser) {
  const folder = mkdtempSync(join(tmpdir(), "melisma-picture-"));
  const { status } = spawnSync(process.env.MELISMA, ["demo", "-o", folder], { env: environment(), stdio: "inherit" });
  if (status !== 0) throw new Error(`melisma demo ended with ${status}`);
  for (const colorScheme of COLOURS) {
    const page = await blank(browser, { colorScheme, viewport: VIEWPORT });
    await page.goto(pathToFileURL(join(folder, "report.html")).href);
    await page.waitForFunction(() => [...document.images].every((image) => image.complete));
    // So do the figures. The chapters about speech and tokens come first.
    await page.addStyleTag({ content: ".facts { display: none }" });
    await page.evaluate(() => document.querySelector("#speak").scrollIntoView());
    await page.screenshot({ path: join(FOLDER, `report-${colorScheme}.png`) });
    await page.context().close();
  }
  rmSync(folder, { recursive: true });
}

const browser = await launch();
await drawPage(browser);
await drawReport(browser);
await browser.close();
