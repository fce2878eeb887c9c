//! Zones as an operator, or a file, defines them here.

use scope::{Diagnostic, Zone};

use crate::event::{Effect, Notice, Time};
use crate::gossip::About;
use crate::machine::Machine;
use crate::registers::{Defined, Key, Stamp};

impl Machine {
    /// Defines a zone at all sites, or removes it. On an error nothing changes.
    pub fn set_zone(
        &mut self,
        name: &str,
        text: Option<&str>,
        now: Time,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Diagnostic> {
        let zone = match text {
            Some(text) => Some(Zone::define(name, text, &self.zone_dialect(), &self.snapshot())?),
            None => None,
        };
        self.begin(now);
        // Else there is nothing to remove.
        if zone.is_some() || self.registers.zones.contains_key(name) {
            let (wall_ms, own) = (self.wall_ms(), self.own_site().clone());
            let stamp = self.registers.stamp(wall_ms, &own);
            self.put_zone(name, Defined { stamp, text: text.map(Into::into), zone });
        }
        self.end(effects);
        Ok(())
    }

    /// Defines a zone that a file names: whatever was defined or removed while sites ran wins, and of several
    /// files the last site by name. On an error nothing changes.
    pub fn set_zone_of_file(
        &mut self,
        name: &str,
        text: &str,
        now: Time,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Diagnostic> {
        let zone = Some(Zone::define(name, text, &self.zone_dialect(), &self.snapshot())?);
        self.begin(now);
        let known = self.registers.zones.get(name);
        if let Some(stamp) = Stamp::of_file(self.own_site(), text, known) {
            self.put_zone(name, Defined { stamp, text: Some(text.into()), zone });
        }
        self.end(effects);
        Ok(())
    }

    fn put_zone(&mut self, name: &str, defined: Defined) {
        self.first = true;
        if self.registers.room_for_zone(name, self.config.zones) {
            self.registers.zones.insert(name.into(), defined);
            self.tell(About::Register(Key::Zone(name.into())), true);
            self.changed = true;
        } else {
            self.notice(Notice::Full(name.into()));
        }
    }

    /// Whether there is a zone of this name, that this site can read or not.
    #[must_use]
    pub fn has_zone(&self, name: &str) -> bool {
        self.registers.zones.get(name).is_some_and(|defined| defined.text.is_some())
    }
}
