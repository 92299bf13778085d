// SPDX-License-Identifier: GPL-2.0
/*
 * Block requests (include/trace/events/block.h): insert, issue, complete. The request is the
 * only or first argument since 5.11. Sector, size and device as the tracepoints print them
 * (blk_rq_trace_sector, blk_rq_trace_nr_sectors: 0 for passthrough requests).
 */

#define REQ_OP_MASK 0xff
#define REQ_OP_DRV_IN 34
#define REQ_OP_DRV_OUT 35
#define MINOR_BITS 20

/* blk_status_to_errno, block/blk-core.c; BLK_STS_* did not change between 5.15 and 6.18 up to 16. */
static __always_inline s32 block_errno(u32 status)
{
	switch (status) {
	case 0: return 0;
	case 1: return -95; /* NOTSUPP: EOPNOTSUPP */
	case 2: return -110; /* TIMEOUT: ETIMEDOUT */
	case 3: return -28; /* NOSPC: ENOSPC */
	case 4: return -67; /* TRANSPORT: ENOLINK */
	case 5: return -121; /* TARGET: EREMOTEIO */
	case 6: return -52; /* NEXUS, RESV_CONFLICT: EBADE */
	case 7: return -61; /* MEDIUM: ENODATA */
	case 8: return -84; /* PROTECTION: EILSEQ */
	case 9: return -12; /* RESOURCE: ENOMEM */
	case 12: return -11; /* AGAIN: EAGAIN */
	case 13: return -16; /* DEV_RESOURCE: EBUSY */
	default: return -5; /* IOERR and the rest */
	}
}

static __always_inline u32 block_number(struct gendisk *disk)
{
	if (!disk)
		return 0;
	return (u32)BPF_CORE_READ(disk, major) << MINOR_BITS | (u32)BPF_CORE_READ(disk, first_minor);
}

static __always_inline u32 block_device(struct request *rq)
{
	if (bpf_core_field_exists(rq->q->disk))
		return block_number(BPF_CORE_READ(rq, q, disk));
	return block_number(BPF_CORE_READ((struct request___rq_disk *)rq, rq_disk));
}

/* A request's number: 24 bits of its place, the same for all of its events. */
static __always_inline u64 block_id(unsigned long long *ctx, u32 argument)
{
	u64 place = 0;

	/* As a number: the verifier allows no arithmetic with the pointer itself. */
	bpf_probe_read_kernel(&place, sizeof(place), &ctx[argument]);
	return place * 0x9e3779b97f4a7c15ull >> 40;
}

/* What a record tells of a request. */
struct block_said {
	u64 sector;
	u32 device;
	u32 bytes;
	u32 op;
	u32 error;
};

static __always_inline int block_write(u32 kind, const struct block_said *said, u64 id, struct behind behind)
{
	u64 sectors = said->bytes >> 9;
	u32 op = said->op;

	if (sectors > 0xffffff) {
		sectors = 0xffffff;
		log_saturated();
	}
	if (cfg.causes)
		log_write_event(kind, OTHER, 3,
				(kind - BLOCK_INSERT + OTHER_BLOCK_INSERT) | (sectors | (u64)(op < 4 ? op : 7) << 24) << WHAT_BITS,
				said->sector, said->device | (u64)(u8)said->error << 32 | id << 40, behind);
	else
		log_write_event(kind, kind, 3, sectors | (u64)op << 24, said->sector, said->device | (u64)said->error << 32,
				behind);
	return 0;
}

static __always_inline int block_record(u32 kind, unsigned long long *ctx, struct request *rq, u32 bytes, u32 error,
					struct behind behind)
{
	u32 op = rq->cmd_flags & REQ_OP_MASK;
	bool passthrough = op == REQ_OP_DRV_IN || op == REQ_OP_DRV_OUT;
	struct block_said said = {
		.sector = rq->__sector, .device = block_device(rq), .bytes = bytes, .op = op, .error = error,
	};

	if (kind != BLOCK_COMPLETE && passthrough)
		said.bytes = 0;
	if (passthrough || said.sector == ~0ull)
		said.sector = 0;
	return block_write(kind, &said, block_id(ctx, 0), behind);
}

SEC("tp_btf/block_rq_insert")
int BPF_PROG(block_rq_insert, struct request *rq)
{
	if (!wanted_here())
		return 0;
	return block_record(BLOCK_INSERT, ctx, rq, rq->__data_len, 0, nothing());
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(block_rq_issue, struct request *rq)
{
	if (!wanted_here())
		return 0;
	return block_record(BLOCK_ISSUE, ctx, rq, rq->__data_len, 0, stack_here(ctx, STACK_ISSUE, 0));
}

/* (rq, status, bytes); until 5.16 the second is an errno already. */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(block_rq_complete, struct request *rq, int error, unsigned int bytes)
{
	if (!wanted_here())
		return 0;
	error = error < 0 ? error : block_errno((u8)error);
	return block_record(BLOCK_COMPLETE, ctx, rq, bytes, error, nothing());
}
